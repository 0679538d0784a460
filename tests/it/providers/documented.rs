//! Every example of the pages about models is a configuration that works.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Lab, RunningProgram};

fn page() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let pages = ["guide/models.md", "guide/budgets.md", "reference/providers.md"];
    pages.map(|page| fs::read_to_string(docs.join(page)).unwrap()).join("\n")
}

#[tokio::test]
async fn every_example_is_accepted_without_a_warning_and_names_a_model() {
    let page = page();
    let blocks: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 18, "a block for each section");
    let lab = Lab::new();
    // The file of authorities that the page names is read when it is checked.
    let authority = rcgen::generate_simple_self_signed(["ca.example".to_owned()]).unwrap();
    fs::create_dir(lab.path("certificates")).unwrap();
    fs::write(lab.path("certificates/internal-ca.pem"), authority.cert.pem()).unwrap();
    let file = lab.path("config.yaml");
    let config = file.to_str().unwrap();
    for block in blocks {
        fs::write(&file, block).unwrap();
        let mut check = lab.deputize(&["config", "check", "--config", config]);
        // A model whose key is not set is warned of; the page says which keys its examples need.
        check.env("OPENAI_API_KEY", "key").env("ANTHROPIC_API_KEY", "key");
        let check = RunningProgram::start(check).end().await.with_code(0);
        assert_eq!(check.err, "", "{block}");
        let preview = ["prompt", "--json", "--config", config, "Hello."];
        let preview = RunningProgram::start(lab.deputize(&preview)).end().await.with_code(0);
        let body: Value = serde_json::from_str(&preview.out).unwrap();
        let model = block.lines().next().unwrap().strip_prefix("model: ").unwrap();
        let model = model.split_whitespace().next().unwrap().split_once('/').unwrap().1;
        assert_eq!(body["model"], model, "{block}");
    }
}

#[test]
fn each_way_to_a_model_has_its_section() {
    let page = page();
    for section in [
        "OpenAI",
        "Anthropic",
        "OpenRouter",
        "DeepSeek",
        "Ollama",
        "llama.cpp",
        "vLLM",
        "Any compatible server",
        "What is tried again",
        "Budgets and prices",
        "Certificate authorities",
        "Proxies",
        "Several keys",
        "Models to fall back on",
        "Without streaming",
    ] {
        let found = page.lines().any(|line| line.trim_start_matches('#').trim() == section);
        assert!(found, "{section}");
    }
}
