//! One agent hands work to others through one ordinary tool, `delegate_task`.
//!
//! Everything with a branch is a function of values: [`read`] (arguments), [`child_tools`] (what a
//! child may use), [`child_prompt`] (what it is told), [`plan()`] (the children of a call),
//! [`describe`] (what the parent's model is told), [`report()`] (what it gets back). Between plan
//! and report stands one effect: the children are attached, run side by side, and awaited.
//!
//! Whoever puts a program together adds the tool to its catalog:
//!
//! ```
//! use std::sync::Arc;
//! use deputize_core::{Catalog, FixedClock};
//! use deputize_delegate::{DelegateTool, Policy};
//!
//! let policy = Policy { max_concurrent_children: 5, ..Policy::default() };
//! let mut catalog = Catalog::default();
//! catalog.insert(DelegateTool::new(policy, Arc::new(FixedClock(0)))?.into_entry())?;
//! assert!(catalog.get("delegate_task").is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it deliberately lacks: knowledge of what a child is (it knows only
//! [`Agent`](deputize_core::Agent)), and a way to give a child more than its parent has. Of files
//! it looks only at those that a parent had read, and keeps what a report leaves out.
//!
//! # Features and stability
//!
//! No features.
//!
//! Stability: settling. A minor version may change it, and the changelog says how to follow.

mod accepted_calls;
mod args;
mod ceiling;
mod claims;
mod control;
mod describe;
mod fields;
mod files;
#[cfg(test)]
mod fixture;
mod found;
mod keep;
mod placeholder;
mod plan;
mod policy;
mod prompt;
mod refusal;
mod report;
mod run;
mod slots;
mod task;
mod tool;
mod toolset;

pub use args::{Reading, Task, read};
pub use ceiling::children_grant;
pub use control::{Background, CONTROL, ControlTool};
pub use describe::{DescribeError, describe};
pub use plan::{Plan, PlanError, plan};
pub use policy::{
    CHILD_TIMEOUT_FLOOR_SECONDS, Form, MAX_SPAWN_DEPTH_CEILING, OverLimit, Policy, ToolSchemas,
};
pub use prompt::{Brief, Nesting, PromptLayout, child_prompt};
pub use refusal::{CallError, Code, Refusal};
pub use report::{Caps, Kept, Seen, StaleFile, report, result_entry};
pub use tool::DelegateTool;
pub use toolset::{
    ChildTools, Dropped, LeafReason, Parent, Reason, TASK, TOOL, TOOLSET, child_tools, send_order,
};
