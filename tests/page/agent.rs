use deputize_core::model::Reply;
use deputize_core::serde_json::json;
use deputize_testkit::{AgentTest, ScriptedModel};

#[test]
fn an_agent_counts_words() {
    let model = ScriptedModel::turns([
        Reply::calls("m", [("count_words", json!({"text": "one two three"}))]),
        Reply::text("m", "There are three."),
    ]);
    let result = AgentTest::linked(&[my_tools::LINK]).run(model, "How many words?");
    assert_eq!(result.answer(), "There are three.");
}
