//! One agent delegates to others through one ordinary tool, `delegate_task`.
//!
//! Everything with a branch is a function of values: [`read`] (arguments), [`child_tools`] (what a
//! child may use), [`child_prompt`] (its prompt), [`plan()`] (the children of a call), [`describe`]
//! (the declaration for the parent's model), [`report()`] (the result). Between plan and report is
//! one effect: the children are attached, run side by side, and awaited.
//!
//! Whoever puts a program together adds the tool to its catalog:
//!
//! ```
//! use std::sync::Arc;
//! use deputize_core::Catalog;
//! use deputize_core::clock::FixedClock;
//! use deputize_delegate::{DelegateTool, DelegationConfig, DelegationLimits};
//!
//! let limits = DelegationLimits { max_concurrent_children: 5, ..DelegationLimits::default() };
//! let config = DelegationConfig { limits, ..DelegationConfig::default() };
//! let mut catalog = Catalog::default();
//! catalog.insert(DelegateTool::new(config, Arc::new(FixedClock(0)))?.into_entry())?;
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
mod admission;
mod args;
mod background;
mod blocking;
mod call_check;
mod call_error;
mod child_spec;
mod concurrency;
mod config;
mod control;
mod describe;
mod diagnosis;
mod drop_reason;
mod fields;
mod file_snapshot;
#[cfg(test)]
mod fixture;
mod inspect;
mod named_files;
mod names;
mod output_file;
mod parent_view;
mod parsed_call;
mod placeholder;
mod plan;
mod profiles;
mod prompt;
mod report;
mod report_call;
mod run;
mod stale_files;
mod task;
mod tool;
mod toolset;
mod toolset_ceiling;

pub use args::read;
pub use background::BackgroundPolicy;
pub use call_error::{CallError, CallErrorCode, Refusal};
pub use config::{
    CHILD_TIMEOUT_FLOOR_SECONDS, ChildApprovals, ChildModels, ChildToolsets, DelegationConfig,
    DelegationHost, DelegationLimits, DelegationOptions, MAX_SPAWN_DEPTH_CEILING, OverLimit,
    PromptLayout, ToolFlavor, ToolSchemas,
};
pub use control::ControlTool;
pub use describe::{DescribeError, describe};
pub use drop_reason::{DropReason, LeafReason};
pub use file_snapshot::StaleFile;
pub use names::{DELEGATE_CONTROL, DELEGATE_TASK, DELEGATION_TOOLSET, TASK_TOOL};
pub use parent_view::ParentView;
pub use parsed_call::{ParsedCall, RequestedTask};
pub use plan::{DelegationPlan, PlanError, plan};
pub use profiles::{ToolRequest, profile_allows, profile_section};
pub use prompt::{ChildPrompt, Nesting, child_prompt};
pub use report::{HostObservations, ReportLimits, SavedOutput, report, result_entry};
pub use tool::DelegateTool;
pub use toolset::{ChildTools, DroppedTool, child_tools, send_order};
pub use toolset_ceiling::children_grant;
