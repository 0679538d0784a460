use parking_lot::Mutex;
use std::collections::BTreeSet;

use deputize_core::authority::Grant;
use deputize_core::{Authority, BoxFuture, Cancel, Catalog, Model, Outcome, SessionId, Status};

use super::*;
use crate::earlier_times::EarlierTime;
use crate::launch::ReadyAgent;
use crate::spawn::LocalAgent;
use crate::store::SessionDir;
use crate::{Session, SessionConfig};

/// A model that writes down that it was asked.
struct NamedModel(&'static str, Result<(), FailureKind>, Arc<Mutex<Vec<&'static str>>>);

impl Model for NamedModel {
    fn reply<'a>(
        &'a self,
        _: &'a Request<'a>,
        _: &'a mut (dyn FnMut(Delta<'_>) + Send),
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.2.lock().push(self.0);
        let reply = self.1.map(|()| Reply::text(self.0, "done"));
        Box::pin(async move { reply.map_err(|kind| ModelError::new(kind, "down")) })
    }
}

/// Runs an agent whose models were chosen before its authority was cut to these. Gives its
/// outcome and the models that were asked.
async fn asked(may: &[&str]) -> (Outcome, Vec<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut config = SessionConfig::new(Catalog::default());
    for (name, reply) in [("t/own", Err(FailureKind::Unavailable)), ("t/other", Ok(()))] {
        let model = NamedModel(name, reply, Arc::clone(&log));
        config.models.insert(name, name, Arc::new(model));
    }
    config.models.fallback(vec!["t/other".to_owned()]);
    let id = SessionId::literal("s");
    let session = Session::create(&SessionDir::new(folder.path()), id, config).unwrap();
    let spec = session.top_agent("t/own", "go", folder.path());
    let root = Authority::root(session.catalog(), &Grant::default());
    let shared = session.shared();
    let routes = shared.routes(&spec, &root).unwrap();
    assert_eq!(routes.len(), 2);
    let may: BTreeSet<String> = may.iter().map(|&name| name.to_owned()).collect();
    let cut = root.intersect(&Grant { models: Some(may), ..Grant::default() });
    let view = shared.view_of(Arc::new(spec), Arc::new(cut));
    let cx = AgentContext::new(Arc::clone(shared), view, EarlierTime::default(), Cancel::new());
    let agent = ReadyAgent { cx: Arc::new(cx), routes, place: None };
    let outcome = LocalAgent::launch(agent).wait().await;
    let asked = log.lock().clone();
    (outcome, asked)
}

#[tokio::test]
async fn no_request_goes_to_a_model_that_the_agent_may_not_use_however_it_was_chosen() {
    let (outcome, models) = asked(&["t/own", "t/other"]).await;
    assert_eq!((outcome.status, models), (Status::Completed, vec!["t/own", "t/other"]));
    for (may, models, refused) in [
        (&["t/other"][..], vec![], "may not use the model `t/own`"),
        (&["t/own"], vec!["t/own"], "may not use the model `t/other`"),
        (&[], vec![], "may not use the model `t/own`"),
    ] {
        let (outcome, found) = asked(may).await;
        assert_eq!((outcome.status, found), (Status::Failed, models), "{outcome:?}");
        assert!(outcome.error.as_deref().unwrap().contains(refused), "{outcome:?}");
    }
}
