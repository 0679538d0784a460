//! Makes agents and runs them as tasks of the session.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use deputize_core::agent::{AgentSpec, AttachError};
use deputize_core::future::poll_once;
use deputize_core::image::Vision;
use deputize_core::name::ChildEndId;
use deputize_core::{AgentView, Authority, Cancel, Outcome, describe_error};
use futures_util::FutureExt as _;
use tracing::{Instrument as _, info_span};

use crate::agent_context::AgentContext;
use crate::agent_handle::{AgentHandle, ChildOutcome};
use crate::child_end::notify_of_earlier_end;
use crate::driver::{Driver, SlotWait};
use crate::earlier_times::EarlierTime;
use crate::heartbeat::start_heartbeat;
use crate::models::ModelRoute;
use crate::orphan::{end_panicked, end_stored, settle_interrupted, why_it_ends};
use crate::outcome::host_fault;
use crate::replay_agent::ReplayAgent;
use crate::session_inner::SessionInner;
use crate::stored_agent::StoredAgent;

/// Receives the outcome of an agent.
pub(crate) type OnEnd = Box<dyn FnOnce(Outcome) + Send>;

/// An agent that is ready to run.
pub(crate) struct ReadyAgent {
    pub(crate) cx: Arc<AgentContext>,
    pub(crate) routes: Vec<ModelRoute>,
    /// The place that a background child waits for before it begins.
    pub(crate) place: Option<SlotWait>,
}

/// Makes an agent and puts its start on record.
pub(crate) fn start(
    shared: &Arc<SessionInner>,
    spec: Arc<AgentSpec>,
    authority: Arc<Authority>,
    cancel: Cancel,
) -> Result<ReadyAgent, AttachError> {
    let routes = shared.routes(&spec, &authority)?;
    // A replay has no routes.
    if !spec.images.is_empty() && routes.first().is_some_and(|route| !route.sees_images()) {
        return Err(AttachError::NoVision(spec.model.clone()));
    }
    let view = shared.view_of(spec, authority);
    if shared.play.is_none() {
        shared
            .bus
            .start_agent(&view.spec, &view.declared)
            .map_err(|error| AttachError::Journal(describe_error(&error)))?;
    }
    let earlier = EarlierTime::default();
    set_vision(&view, &routes);
    let cx = Arc::new(AgentContext::new(Arc::clone(shared), view, earlier, cancel));
    Ok(ReadyAgent { cx, routes, place: None })
}

/// Tells an agent's tools whether its own model sees images. A model that it falls back on and that
/// sees none is sent the conversation without them.
fn set_vision(view: &AgentView, routes: &[ModelRoute]) {
    view.store
        .get_or_insert_with(Vision::default)
        .set(routes.first().is_some_and(ModelRoute::sees_images));
}

/// Makes a child that is not in the journal. It shares its spec with whoever starts it where nothing
/// is taken away.
pub(crate) fn start_child(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    mut spec: Arc<AgentSpec>,
    cancel: &Cancel,
) -> Result<ReadyAgent, AttachError> {
    let authority = shared.child_authority(parent, &spec.grant)?;
    if let Some(by) = shared.registry.paused().filter(|_| shared.play.is_none()) {
        return Err(AttachError::Paused(by));
    }
    let program = shared.config.external.get(&spec.model);
    if let Some(why) = program.and_then(|program| program.refusal(&spec, &authority)) {
        return Err(AttachError::External(why));
    }
    if program.is_some() {
        // Such an agent has its own tools, and none of ours.
        let spec = Arc::make_mut(&mut spec);
        spec.tools = Vec::new();
        spec.toolsets = Vec::new();
    }
    // On record it asks for no more than it got.
    let spawn_depth = Some(authority.spawn_depth());
    if spec.grant.spawn_depth != spawn_depth {
        Arc::make_mut(&mut spec).grant.spawn_depth = spawn_depth;
    }
    let spec = shared.without_secrets(spec);
    start(shared, spec, authority, cancel.child())
}

/// Makes an agent of the journal, which goes on where it was.
pub(crate) fn resume_agent(
    shared: &Arc<SessionInner>,
    stored: StoredAgent,
    authority: Arc<Authority>,
    cancel: Cancel,
) -> Result<ReadyAgent, AttachError> {
    let routes = shared.routes(&stored.spec, &authority)?;
    let mut view = shared.view_of(Arc::new(stored.spec), authority);
    // What its model was told stays, to the byte, also under a newer program.
    if let Some(view) = Arc::get_mut(&mut view) {
        view.declared = stored.declared;
    }
    set_vision(&view, &routes);
    let cx = Arc::new(AgentContext::new(Arc::clone(shared), view, stored.earlier, cancel));
    Ok(ReadyAgent { cx, routes, place: None })
}

/// Makes a child of the journal, after what was under way is settled.
pub(crate) fn resume_child(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    stored: StoredAgent,
    cancel: Cancel,
) -> Result<ReadyAgent, AttachError> {
    let authority = shared.child_authority(parent, &stored.spec.grant)?;
    // In a recording it is recorded what became of its calls.
    if shared.play.is_none() {
        settle_interrupted(shared, &stored)
            .map_err(|error| AttachError::Journal(describe_error(&error)))?;
    }
    resume_agent(shared, stored, authority, cancel)
}

/// Registers an agent: others can find it, and it may have children.
pub(crate) fn register(cx: &AgentContext) {
    let id = cx.view.id().clone();
    let mut tree = cx.shared.tree();
    tree.top.get_or_insert_with(|| Arc::clone(&cx.view.spec));
    tree.live.insert(id.clone(), Arc::clone(&cx.handle));
    tree.counter.set_limit(id, cx.view.authority.spawn_number());
}

/// Runs an agent as a task of the session.
pub(crate) fn launch(agent: ReadyAgent, on_end: OnEnd) {
    let cx = Arc::clone(&agent.cx);
    register(&cx);
    let shared = &cx.shared;
    // A future that awaits another by value has room for it twice.
    let run = Box::pin(run_agent(agent));
    match &shared.play {
        Some(play) => play.launch(Box::pin(async move { on_end(run.await) })),
        None => {
            let agent = Arc::clone(&cx);
            shared.tasks.spawn(async move {
                let ended = AssertUnwindSafe(run).catch_unwind().await;
                on_end(ended.unwrap_or_else(|_| end_panicked(&agent)));
            });
            if cx.spec().depth > 0 {
                start_heartbeat(shared);
            }
        }
    }
}

/// Returns an agent's way to its end, or its part of a recording. Its budget is opened at once: tasks
/// of a call take room in their order.
pub(crate) fn run_agent(agent: ReadyAgent) -> impl Future<Output = Outcome> + Send {
    let ReadyAgent { cx, routes, place } = agent;
    let play = cx.shared.play.clone();
    let span = info_span!("agent", id = %cx.spec().id);
    let driver = play.is_none().then(|| Box::new(Driver::new(Arc::clone(&cx), routes)));
    let run = async move {
        take_up_children(&cx);
        match (driver, play) {
            (Some(driver), _) => driver.drive(place).await,
            // Apart, so that an agent that is not replayed has no room for it.
            (None, Some(play)) => Box::pin(ReplayAgent::new(cx, play).run()).await,
            (None, None) => host_fault(cx.spec(), "the agent has no driver".to_owned()),
        }
    };
    run.instrument(span)
}

/// Begins a background child. One that is known already is left as it is, so that asking again is
/// safe.
pub(crate) fn begin_background(
    shared: &Arc<SessionInner>,
    parent: &AgentView,
    spec: Arc<AgentSpec>,
) -> Result<(), AttachError> {
    let gone = || AttachError::Journal("its parent has ended".to_owned());
    let handle = shared.tree().live.get(parent.id()).cloned().ok_or_else(gone)?;
    let id = spec.id.clone();
    if !handle.record_child_start(ChildEndId { child: id.clone(), number: 1 }) {
        return Ok(());
    }
    match start_child(shared, parent, spec, &handle.children) {
        Ok(agent) => {
            launch_background(agent, parent, handle);
            Ok(())
        }
        Err(error) => {
            handle.forget_child(&id);
            Err(error)
        }
    }
}

pub(crate) fn launch_background(
    mut agent: ReadyAgent,
    parent: &AgentView,
    handle: Arc<AgentHandle>,
) {
    let cx = Arc::clone(&agent.cx);
    let shared = &cx.shared;
    // Places are granted in the order of those who ask. A replay follows its records.
    let lifecycle = shared.config.children.lifecycle.as_ref().filter(|_| shared.play.is_none());
    let place = lifecycle.map(|lifecycle| poll_once(lifecycle.acquire_slot(parent)));
    let waits =
        place.as_ref().is_some_and(|(_, granted)| !granted || shared.registry.paused().is_some());
    cx.handle.progress.set_waits(waits);
    agent.place = place.map(|(place, _)| place);
    let number = cx.state.read().end_number();
    let on_end = end_of_background(shared, handle, cx.spec(), number);
    launch(agent, Box::new(on_end));
}

/// Delivers the end of this number of a background child to its parent.
fn end_of_background(
    shared: &Arc<SessionInner>,
    parent: Arc<AgentHandle>,
    child: &AgentSpec,
    number: u32,
) -> impl FnOnce(Outcome) + Send + use<> {
    let shared = Arc::clone(shared);
    let id = ChildEndId { child: child.id.clone(), number };
    let goal = child.goal.clone();
    move |outcome| {
        parent.record_child_end(ChildOutcome { id, goal, outcome });
        shared.registry.notify();
    }
}

/// Takes up the background children that an earlier process left: the ends of those that had ended
/// are delivered, the others go on.
fn take_up_children(cx: &AgentContext) {
    let shared = &cx.shared;
    let parent = &cx.handle;
    let left = shared.tree().take_background(cx.view.id());
    for stored in left {
        let spec = stored.spec.clone();
        let number = stored.state.read().end_number();
        if !parent.record_child_start(ChildEndId { child: spec.id.clone(), number }) {
            shared.keep_continuable(stored);
            continue;
        }
        let on_end = end_of_background(shared, Arc::clone(parent), &spec, number);
        let ended = stored.state.read().outcome().is_some();
        if ended {
            notify_of_earlier_end(shared, stored, on_end);
            continue;
        }
        if let Some(why) = why_it_ends(shared, &cx.view, &stored)
            && shared.play.is_none()
        {
            end_stored(shared, stored, why, on_end);
            continue;
        }
        match resume_child(shared, &cx.view, stored, parent.children.child()) {
            Ok(agent) => launch_background(agent, &cx.view, Arc::clone(parent)),
            Err(error) => on_end(host_fault(&spec, describe_error(&error))),
        }
    }
}
