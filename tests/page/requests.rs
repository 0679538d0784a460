use deputize_core::model::Reply;
use deputize_core::serde_json::json;
use deputize_testkit::{AgentTest, ScriptedModel};

#[test]
fn a_model_reads_the_result() {
    let model = ScriptedModel::turns([
        Reply::calls("m", [("count_words", json!({"text": "one two three"}))]),
        Reply::text("m", "There are three."),
    ]);
    let result = AgentTest::linked(&[my_tools::LINK]).run(model, "How many words?");
    result
        .request(2)
        .assert_result("\n3\n") // the last result of a call
        .assert_continues(result.request(1)) // nothing that was sent before has changed
        .assert_tools(&["count_words"])
        .assert_says("How many words?")
        .assert_silent_about("password");
}
