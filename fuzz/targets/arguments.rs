//! Whatever a model writes as the arguments of a call.
//!
//! The input: a byte that chooses the tool, and the arguments.
#![no_main]

use std::sync::LazyLock;

use deputize_core::clock::FixedClock;
use deputize_core::{Catalog, ToolSpec};
use deputize_delegate::{DelegateTool, DelegationConfig, read};
use deputize_fuzz::meter::MemoryLimit;
use deputize_runtime::fuzz::Arguments;
use libfuzzer_sys::fuzz_target;

const LIMIT: MemoryLimit = MemoryLimit { base: 256 * 1024, each: 600 };
/// Bytes of what a model reads of arguments that do not fit.
const TOLD_BYTES: usize = 8 * 1024;

struct Tools {
    specs: Vec<ToolSpec>,
    check: Arguments,
}

static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    let mut catalog = Catalog::linked(&[deputize_tools::LINK]).expect("the tools of the program");
    let delegate =
        DelegateTool::new(DelegationConfig::default(), std::sync::Arc::new(FixedClock(0)));
    catalog.insert(delegate.expect("a tool").into_entry()).expect("one more tool");
    let specs: Vec<ToolSpec> = catalog.iter().map(|entry| entry.tool.spec().clone()).collect();
    let tools = Tools { specs, check: Arguments::default() };
    for spec in &tools.specs {
        // Compiles the schema.
        let _refused = tools.check.check(spec, "1");
    }
    tools
});

fuzz_target!(|input: &[u8]| {
    let Some((choice, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let tools = &*TOOLS;
    let spec = &tools.specs[usize::from(*choice) % tools.specs.len()];
    match LIMIT.during(text.len(), || tools.check.check(spec, &text)) {
        Ok(value) => assert!(value.is_object(), "{value}"),
        Err(error) => {
            assert!(error.len() <= TOLD_BYTES, "{} bytes are told: {error}", error.len());
            assert!(error.contains(spec.decl.name.as_str()), "{error}");
        }
    }
    if let Ok(arguments) = serde_json::from_str(&text) {
        let policy = DelegationConfig::default();
        let reading = LIMIT.during(text.len(), || read(&arguments, &policy));
        assert!(reading.tasks.len() <= reading.count);
        if reading.errors.is_empty() {
            assert!(reading.count > 0 && reading.tasks.len() == reading.count);
            assert!(reading.tasks.iter().all(|task| !task.goal.trim().is_empty()), "{arguments}");
            let most = policy.limits(None).max_iterations;
            let iterations = reading.tasks.iter().filter_map(|task| task.max_iterations);
            assert!(iterations.into_iter().all(|n| (1..=most).contains(&n)), "{arguments}");
        }
    }
});
