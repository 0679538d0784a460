use deputize_core::model::Reply;
use deputize_core::prompt::{PromptParts, Section};
use deputize_testkit::{AgentTest, RedactedText, ScriptedModel, assert_prompt};

#[test]
fn what_a_model_is_sent() {
    let model = ScriptedModel::turns([Reply::text("m", "Hello.")]);
    let result = AgentTest::linked(&[my_tools::LINK]).run(model, "Say hello.");
    assert_prompt!(result.request(1)); // the whole request: tools, system, messages
    // Where a date or a temporary directory cannot be avoided:
    assert_prompt!(RedactedText::of(result.request(1)).path(result.dir(), "[dir]").dates());
}

#[test]
fn what_a_system_text_says() {
    let parts = PromptParts { stable: vec![Section::own("Role", "You count.")], volatile: vec![] };
    assert_prompt!(parts.render(), @r"
    # Role
    You count.
    ");
}
