use std::collections::BTreeMap;
use std::sync::Arc;

use deputize_core::Resource as _;
use deputize_core::serde_json::json;
use deputize_mcp::{
    HintCommands, ServerConfig, ServerDirectory, ServerRecord, Servers, ToolFilter, look, offer,
};
use deputize_process::Supervisor;
use deputize_testkit::ToolCheck;

#[tokio::test]
async fn echo_keeps_its_contract() {
    let program = env!("CARGO_BIN_EXE_deputize-mcp-faulty");
    let args = vec!["none".into()];
    let env = BTreeMap::new();
    let dir = std::env::temp_dir();
    let server =
        ServerConfig::program("s", program, args, env, ServerDirectory::At(dir.clone())).unwrap();
    let supervisor = Arc::new(Supervisor::start().unwrap());

    // What the server has, and what of it an agent is offered.
    let shared = Arc::clone(&supervisor);
    let listed = look(server.clone(), &dir, move || Ok(Arc::clone(&shared))).await.unwrap();
    let mut record = ServerRecord::default();
    record.record_and_approve(&server.start(), listed);
    let filter = ToolFilter { read_only: vec!["echo".to_owned()], ..ToolFilter::default() };
    let commands = HintCommands { review: "agent review".into(), test: "agent test".into() };
    let offered = offer("s", &record, &server.start(), &filter, &commands).entries;
    let echo = offered.iter().find(|entry| entry.name().as_str() == "mcp__s__echo").unwrap();

    let servers = Servers::new(vec![server], &dir, move |_| Ok(Arc::clone(&supervisor)));
    let check = ToolCheck::new(&echo.tool).lend(servers.clone()).call(json!({"text": "hello"}));
    check.run().await.unwrap();
    servers.close().await;
}
