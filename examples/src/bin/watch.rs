//! An observer: everything that happens, in one order, as it is on record. A screen, a trace and a
//! bill are made of the same.
#![expect(clippy::print_stdout, reason = "it shows what it sees")]

use std::error::Error;
use std::sync::Arc;

use deputize_core::authority::Grant;
use deputize_core::model::{Delta, Reply};
use deputize_core::{AgentId, Authority, Cancel, Catalog, Event, Observer, Record, SessionId};
use deputize_runtime::{Session, SessionConfig, SessionDir};
use deputize_testkit::ScriptedModel;

struct Printer;

impl Observer for Printer {
    fn on_record(&self, record: &Record) {
        // Events may be added, so a `match` has a last arm.
        match &record.event {
            Event::AgentStart(start) => println!("{} starts: {}", record.agent, start.spec.goal),
            Event::ToolStart { tool, .. } => println!("{} calls {tool}", record.agent),
            Event::AgentEnd(_) => println!("{} ends", record.agent),
            _ => {}
        }
    }

    fn on_delta(&self, agent: &AgentId, delta: Delta<'_>) {
        if let Delta::Text(text) = delta {
            println!("{agent} says: {text}");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::turns([Reply::text("m", "Good day.")]);
    let mut config = SessionConfig::new(Catalog::default());
    config.models.insert("scripted/m", "m", Arc::new(model));
    config.observers.push(Arc::new(Printer));
    let folder = tempfile::tempdir()?;
    let session =
        Session::create(&SessionDir::new(folder.path()), SessionId::literal("s1"), config)?;
    let spec = session.top_agent("scripted/m", "Say good day.", folder.path());
    let authority = Authority::root(session.catalog(), &Grant::default());
    session.run(spec, authority, &Cancel::new()).await;
    Ok(())
}
