//! The person's time zone.

use jiff::tz::TimeZone;

use crate::process_env::ProcessEnv;

/// The system's own zone, as data.
const LOCAL: &str = "/etc/localtime";

/// The zone that `TZ` names, or the system's. The latter is read where it lies: to find its name,
/// a library would walk all zones there are, which takes longer than the rest of the start.
pub(crate) fn zone(env: &ProcessEnv) -> TimeZone {
    local_zone(env.var("TZ").is_some())
}

/// The same, for a program in whose environment `TZ` is set or not.
pub(crate) fn local_zone(is_named: bool) -> TimeZone {
    if is_named {
        return TimeZone::system();
    }
    let data = std::fs::read(LOCAL).ok();
    let zone = data.and_then(|data| TimeZone::tzif("local", &data).ok());
    zone.unwrap_or_else(TimeZone::system)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_zone_as_data_tells_the_time_that_the_named_one_tells() {
        let zone = zone(&ProcessEnv::for_tests(&[]));
        for second in [0, 1_719_792_000, 1_735_689_600] {
            let at = Timestamp::from_second(second).unwrap();
            assert_eq!(zone.to_offset(at), TimeZone::system().to_offset(at));
        }
    }
}
