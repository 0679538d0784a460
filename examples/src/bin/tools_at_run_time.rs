//! Tools that are known only when the program runs: here one for each word of a table, elsewhere
//! one for each endpoint of an API, or each table of a database. No macro, no registration.
#![expect(clippy::print_stdout, reason = "it shows what came of it")]

use std::error::Error;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::model::Reply;
use deputize_core::schema::Schema;
use deputize_core::{
    Authority, BoxFuture, Cancel, Catalog, CatalogEntry, Origin, SessionId, Tool, ToolCallResult,
    ToolCx, ToolDecl, ToolName, ToolOutput, ToolSpec, ToolsetName,
};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::ScriptedModel;
use serde_json::{Value, json};

/// Gives lengths in one unit.
struct Convert {
    spec: ToolSpec,
    metres: f64,
}

impl Convert {
    fn new(unit: &str, metres: f64) -> Result<Self, Box<dyn Error>> {
        let parameters = Schema::new(&json!({
            "type": "object",
            "properties": {"metres": {"type": "number", "description": "The length."}},
            "required": ["metres"],
        }))?;
        let name = ToolName::new(format!("to_{unit}"))?;
        let description = format!("Give a length in {unit}.");
        let spec = ToolSpec::read_only(ToolDecl { name, description, parameters });
        Ok(Self { spec, metres })
    }
}

impl Tool for Convert {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: Value, _cx: &'a ToolCx) -> BoxFuture<'a, ToolCallResult> {
        // The arguments fit the schema: that was checked.
        let metres = arguments.get("metres").and_then(Value::as_f64).unwrap_or_default();
        Box::pin(async move { Ok(ToolOutput::text(format!("{:.2}", metres / self.metres))) })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut catalog = Catalog::default();
    for (unit, metres) in [("miles", 1609.344), ("leagues", 4828.032)] {
        let origin = Origin::Linked { krate: env!("CARGO_PKG_NAME").to_owned() };
        let tool: Arc<dyn Tool> = Arc::new(Convert::new(unit, metres)?);
        // Two tools of one name are an error here, not a surprise later.
        catalog.insert(CatalogEntry { toolset: ToolsetName::literal("measures"), origin, tool })?;
    }
    let call = [("to_miles", json!({"metres": 10_000}))];
    let model = Arc::new(ScriptedModel::turns([Reply::calls("m", call), Reply::text("m", "Six.")]));
    let mut config = SessionConfig::new(catalog);
    config.models.insert("scripted/m", "m", Arc::clone(&model) as Arc<_>);
    let folder = tempfile::tempdir()?;
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s1"), config)?;
    let spec = session.top_agent("scripted/m", "How many miles are 10 km?", folder.path());
    let authority = Authority::root(session.catalog(), &Grant::default());
    session.run(spec, authority, &Cancel::new()).await;
    for result in model.requests().iter().flat_map(|request| request.results()) {
        println!("{}", result.text);
    }
    Ok(())
}
