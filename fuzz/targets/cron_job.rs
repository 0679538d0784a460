//! Any bytes as the file of a job, and any text as a schedule.
#![no_main]

use deputize_cron::{Job, Schedule};
use deputize_fuzz::meter::MemoryLimit;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

/// Names of months and days are replaced one after the other in a schedule, which is short.
const LIMIT: MemoryLimit = MemoryLimit { base: 256 * 1024, each: 100 };
/// Characters of an error.
const ERROR_CHARS: usize = 400;

fuzz_target!(|input: &[u8]| {
    match LIMIT.during(input.len(), || Job::parse(input)) {
        Err(error) => deputize_fuzz::one_line(&error.to_string(), ERROR_CHARS),
        Ok(job) => {
            let text = serde_json::to_vec(&job).expect("a job is JSON");
            assert_eq!(Job::parse(&text).as_ref(), Ok(&job), "a job that is kept is the same");
            let name = job.name.as_str();
            assert!(!name.is_empty() && !name.contains(['/', '.', '\0']), "{name:?}");
            times(&job.schedule);
        }
    }
    let text = String::from_utf8_lossy(input);
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    match LIMIT.during(input.len(), || Schedule::read(&text, now, &TimeZone::UTC)) {
        Err(error) => deputize_fuzz::one_line(&error.to_string(), ERROR_CHARS),
        Ok(schedule) => {
            deputize_fuzz::one_line(&schedule.to_string(), ERROR_CHARS);
            let again: Schedule = schedule.to_string().parse().expect("a schedule");
            assert_eq!(again, schedule);
            assert!(schedule.next_after(now, now, &TimeZone::UTC).is_some(), "it has a time");
            times(&schedule);
        }
    }
});

/// Times only go on, also about the ends of time.
fn times(schedule: &Schedule) {
    let starts = [0, 1_774_742_399, 1_792_900_799, 253_402_207_100];
    for start in starts.map(Timestamp::from_second) {
        let start = start.expect("a time");
        let mut last = start;
        for _ in 0..3 {
            let Some(next) = schedule.next_after(last, start, &TimeZone::UTC) else { break };
            assert!(next > last, "{next} is not after {last}");
            last = next;
        }
    }
}
