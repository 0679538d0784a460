//! The file ledger of a session that is resumed.
//!
//! Tools enter what they read and write at once, because a write of another agent in between must
//! see it; it is on record when the call has ended. Which lines a read showed is not on record.

use deputize_core::file_state::{FileLedger, ReadRange};
use deputize_core::{Event, Record, ToolEffect};

/// Returns which agent read and wrote which version of which file in a session that is resumed.
pub(crate) fn restore_files(records: &[Record]) -> FileLedger {
    let files = FileLedger::default();
    for record in records {
        match &record.event {
            // A call that did not end runs again, so that what it read counts when it ended.
            Event::ToolEnd(end) => end.facts.iter().for_each(|fact| match fact {
                ToolEffect::FileRead { path, version, whole } => {
                    let extent = if *whole { ReadRange::Whole } else { ReadRange::Part };
                    files.record_partial_read(&record.agent, path, version.clone(), extent);
                }
                ToolEffect::FileRemoved { path } => files.record_absence(&record.agent, path),
                _ => {}
            }),
            Event::FileWrite { path, version, created: false } => {
                files.record_write(&record.agent, path, version.clone());
            }
            Event::FileWrite { path, version, created: true } => {
                files.record_creation(&record.agent, path, version.clone());
            }
            Event::Compaction(_) | Event::ResultsCut { .. } => files.forget_contents(&record.agent),
            Event::AgentEnd(_) if record.depth > 0 => files.forget_agent(&record.agent),
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use deputize_core::event::ToolEnd;
    use deputize_core::file_state::{FileVersion, StaleWrite};
    use deputize_core::message::{CallStatus, ModelText};
    use deputize_core::source_set::SourceSet;
    use deputize_core::{AgentId, CallId, SessionId, ToolResult};

    #[test]
    fn what_was_read_in_part_is_known_in_part_after_a_resume() {
        let agent = AgentId::root(&SessionId::literal("s"));
        let path = PathBuf::from("/w/f");
        let version = FileVersion::of(b"x");
        let read = |whole| {
            let call = CallId::new(1, 0);
            let status = CallStatus::Ok;
            let text = ModelText::own("");
            let path = path.clone();
            let version = version.clone();
            Event::ToolEnd(Box::new(ToolEnd {
                tool: "read_file".to_owned(),
                result: ToolResult {
                    call,
                    status,
                    text,
                    fingerprint: String::new(),
                    images: Vec::new(),
                    sources: SourceSet::new(),
                },
                args_bytes: 0,
                ms: 0,
                facts: vec![ToolEffect::FileRead { path, version, whole }],
                display: None,
                error: None,
                boundary: None,
            }))
        };
        let record =
            |event| Record { seq: 0, at: 0, agent: agent.clone(), parent: None, depth: 0, event };
        let files = restore_files(&[record(read(false))]);
        assert_eq!(files.check(&agent, &path, &version), Ok(()));
        let partly = Err(StaleWrite::Partly { lines: None });
        assert_eq!(files.check_whole(&agent, &path, &version), partly);
        let files = restore_files(&[record(read(false)), record(read(true))]);
        assert_eq!(files.check_whole(&agent, &path, &version), Ok(()));
        let cut = Event::ResultsCut { results: Vec::new() };
        let files = restore_files(&[record(read(true)), record(cut)]);
        assert_eq!(files.check(&agent, &path, &version), Ok(()));
        assert_eq!(files.check_whole(&agent, &path, &version), partly);
    }
}
