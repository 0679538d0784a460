use deputize_requirements::require;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The next times of a schedule, in its zone.
fn times(schedule: &str, after: &str, count: usize) -> Vec<String> {
    let schedule: Schedule = schedule.parse().unwrap();
    let zone = schedule.zone.clone().unwrap_or(TimeZone::UTC);
    let anchor = at(after);
    let mut last = anchor;
    let mut times = Vec::new();
    while times.len() < count
        && let Some(next) = schedule.next_after(last, anchor, &TimeZone::UTC)
    {
        let shown = next.to_zoned(zone.clone());
        times.push(shown.strftime("%m-%d %H:%M%:z").to_string());
        last = next;
    }
    times
}

/// Whether this machine knows time zones by name.
fn zones() -> Result<(), String> {
    TimeZone::get("Europe/Berlin").map(drop).map_err(|_| "there are no time zones".to_owned())
}

#[test]
fn every_form_has_its_times() {
    let after = "2026-11-27T10:00:30Z";
    assert_eq!(times("30 2 * * MON-FRI", after, 2), ["11-30 02:30+00:00", "12-01 02:30+00:00"]);
    assert_eq!(times("@daily", after, 1), ["11-28 00:00+00:00"]);
    assert_eq!(times("every 1h30m", after, 2), ["11-27 11:30+00:00", "11-27 13:00+00:00"]);
    assert_eq!(times("every 1d", after, 1), ["11-28 10:00+00:00"]);
    assert_eq!(times("at 2026-12-01T09:00", after, 2), ["12-01 09:00+00:00"]);
    assert_eq!(times("at 2026-12-01T09:00:00+02:00", after, 2), ["12-01 07:00+00:00"]);
    assert_eq!(times("at 2026-12-01T09:00[UTC]", after, 2), ["12-01 09:00+00:00"]);
    assert_eq!(times("at 2026-11-27T10:00", after, 1), [""; 0]);
}

#[test]
fn a_clock_change_skips_no_day_and_repeats_none() {
    require!(zones());
    // 02:30 does not exist on 29 March and comes twice on 25 October.
    let daily = "30 2 * * * Europe/Berlin";
    assert_eq!(
        times(daily, "2026-03-27T12:00:00Z", 4),
        ["03-28 02:30+01:00", "03-29 03:00+02:00", "03-30 02:30+02:00", "03-31 02:30+02:00"]
    );
    assert_eq!(
        times(daily, "2026-10-23T12:00:00Z", 4),
        ["10-24 02:30+02:00", "10-25 02:30+02:00", "10-26 02:30+01:00", "10-27 02:30+01:00"]
    );
    // A single time is as a daily one.
    assert_eq!(
        times("at 2026-03-29T02:30 Europe/Berlin", "2026-03-27T12:00:00Z", 1),
        ["03-29 03:00+02:00"]
    );
    assert_eq!(
        times("at 2026-10-25T02:30 Europe/Berlin", "2026-10-23T12:00:00Z", 1),
        ["10-25 02:30+02:00"]
    );
    // So it is with the zone in brackets. An offset says which time is meant.
    for (at, utc) in [
        ("2026-03-29T02:30[Europe/Berlin]", "03-29 01:00+00:00"),
        ("2026-03-29T01:30[Europe/Berlin]", "03-29 00:30+00:00"),
        ("2026-03-29[Europe/Berlin]", "03-28 23:00+00:00"),
        ("2026-10-25T02:30[Europe/Berlin]", "10-25 00:30+00:00"),
        ("2026-10-25T02:30+01:00[Europe/Berlin]", "10-25 01:30+00:00"),
        ("2026-03-29T02:30[+01:00]", "03-29 01:30+00:00"),
    ] {
        assert_eq!(times(&format!("at {at}"), "2026-03-27T12:00:00Z", 1), [utc], "{at}");
    }
}

/// What recurs within the hours of a change follows the clock: an hour that is skipped has no times,
/// and one that comes twice has them twice.
#[test]
fn times_within_a_clock_change_follow_the_clock() {
    require!(zones());
    let spring = "2026-03-28T23:30:00Z";
    let autumn = "2026-10-24T22:30:00Z";
    let mut shown = String::new();
    for fields in ["0 * * * *", "*/30 * * * *", "0 1-3 * * *", "30 1-3 * * *"] {
        for after in [spring, autumn] {
            let times = times(&format!("{fields} Europe/Berlin"), after, 6).join(", ");
            shown += &format!("{fields}: {times}\n");
        }
    }
    insta::assert_snapshot!(shown, @"
    0 * * * *: 03-29 01:00+01:00, 03-29 03:00+02:00, 03-29 04:00+02:00, 03-29 05:00+02:00, 03-29 06:00+02:00, 03-29 07:00+02:00
    0 * * * *: 10-25 01:00+02:00, 10-25 02:00+02:00, 10-25 02:00+01:00, 10-25 03:00+01:00, 10-25 04:00+01:00, 10-25 05:00+01:00
    */30 * * * *: 03-29 01:00+01:00, 03-29 01:30+01:00, 03-29 03:00+02:00, 03-29 03:30+02:00, 03-29 04:00+02:00, 03-29 04:30+02:00
    */30 * * * *: 10-25 01:00+02:00, 10-25 01:30+02:00, 10-25 02:00+02:00, 10-25 02:30+02:00, 10-25 02:00+01:00, 10-25 02:30+01:00
    0 1-3 * * *: 03-29 01:00+01:00, 03-29 03:00+02:00, 03-30 01:00+02:00, 03-30 02:00+02:00, 03-30 03:00+02:00, 03-31 01:00+02:00
    0 1-3 * * *: 10-25 01:00+02:00, 10-25 02:00+02:00, 10-25 02:00+01:00, 10-25 03:00+01:00, 10-26 01:00+01:00, 10-26 02:00+01:00
    30 1-3 * * *: 03-29 01:30+01:00, 03-29 03:30+02:00, 03-30 01:30+02:00, 03-30 02:30+02:00, 03-30 03:30+02:00, 03-31 01:30+02:00
    30 1-3 * * *: 10-25 01:30+02:00, 10-25 02:30+02:00, 10-25 02:30+01:00, 10-25 03:30+01:00, 10-26 01:30+01:00, 10-26 02:30+01:00
    ");
}

#[test]
fn a_time_zone_may_have_a_name_without_a_place() {
    require!(zones());
    let after = "2026-11-27T10:00:30Z";
    for (schedule, time) in [
        ("30 2 * * * CET", "11-28 02:30+01:00"),
        ("30 2 * * * EST5EDT", "11-28 02:30-05:00"),
        ("0 12 * JAN MON GMT", "01-04 12:00+00:00"),
        ("@daily est", "11-28 00:00-05:00"),
        ("at 2026-12-01T09:00 CET", "12-01 09:00+01:00"),
        ("at 2026-12-01 09:00 CET", "12-01 09:00+01:00"),
    ] {
        assert_eq!(times(schedule, after, 1), [time], "{schedule}");
    }
}

#[test]
fn what_is_no_schedule_is_refused_with_what_to_write() {
    let now = at("2026-11-27T10:00:00Z");
    let read = |text: &str| match Schedule::read(text, now, &TimeZone::UTC) {
        Ok(schedule) => schedule.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(read("in 20m"), "at 2026-11-27T10:20:00Z");
    assert_eq!(read("  every   2h "), "every 2h");
    let rows = [
        "",
        "tomorrow",
        "* * * *",
        "0 * * * * *",
        "61 * * * *",
        "0 2-1x * * *",
        "0 2 * foo *",
        "@often",
        "0 0 30 2 *",
        "every 30s",
        "every 1mo",
        "every 20y",
        "every -2h",
        "at noon",
        "at 2026-12-01T09:00[Mars/Olympus]",
        "at 2026-11-27T09:00",
        "at 2046-11-27T09:00",
        "at 9999-12-31T09:00",
        "at 9999-12-31T23:59:59Z",
        "in 2 years",
        "in 2h Europe/Berlin",
        "every 2h UTC",
        "at 2027-12-01T09:00Z UTC",
        "at 2026-12-01T09:00[UTC] Europe/Berlin",
        "in 2h Mars/Olympus",
        "30 2 * * * Mars/Olympus",
        "30 2 * * * CTE",
        "0 0 2 * * MON",
        "at 2026-12-01T09:00 CTE",
        "in 2h CET",
        &"* ".repeat(100),
    ];
    insta::assert_snapshot!(rows.map(read).join("\n"));
    assert!("in 20m".parse::<Schedule>().is_err(), "a stored schedule counts from nothing");
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (1_u32..12).prop_map(|n| n.to_string()),
        (1_u32..6, 6_u32..12).prop_map(|(a, b)| format!("{a}-{b}")),
        (2_u32..9).prop_map(|n| format!("*/{n}")),
        (1_u32..6, 6_u32..12).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Each next time is later, and none lies between.
    #[test]
    fn times_only_go_on(
        fields in prop::collection::vec(field(), 4),
        day in prop_oneof![Just("*".to_owned()), (0_u32..7).prop_map(|n| n.to_string())],
        start in 1_700_000_000_i64..1_900_000_000,
    ) {
        let schedule: Schedule = format!("{} {day}", fields.join(" ")).parse().unwrap();
        let start = Timestamp::from_second(start).unwrap();
        let mut last = start;
        for _ in 0..5 {
            let next = schedule.next_after(last, start, &TimeZone::UTC).unwrap();
            prop_assert!(next > last);
            let half = SignedDuration::from_secs(next.duration_since(last).as_secs() / 2);
            let between = last.checked_add(half).unwrap();
            prop_assert_eq!(schedule.next_after(between, start, &TimeZone::UTC), Some(next));
            last = next;
        }
    }

    /// Any text is a schedule that has a time, or no schedule for a reason on one line.
    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof![
            "[-*0-9,/LW#?]{1,5}( [-*0-9,/LW#?]{1,5}){4}",
            "(every|in|at|@)[ a-z0-9:.TZ+-]{0,24}( Europe/Berlin| UTC| A/b)?",
            "\\PC{0,40}",
        ],
    ) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        match Schedule::read(&text, now, &TimeZone::UTC) {
            Ok(schedule) => {
                prop_assert!(schedule.next_after(now, now, &TimeZone::UTC).is_some());
                prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule));
            }
            Err(error) => {
                let error = error.to_string();
                prop_assert!(error.len() < 1_000 && !error.contains(char::is_control), "{error}");
            }
        }
    }

    /// Any bytes are a job, or none for a reason on one line.
    #[test]
    fn any_bytes_are_a_job_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = crate::job::Job::parse(&bytes) {
            let why = error.to_string();
            prop_assert!(!why.contains(char::is_control) && why.len() < 1_000, "{why}");
        }
    }

    /// A stored schedule means the same when it is read again.
    #[test]
    fn texts_stay_the_same(minutes in 1_i64..100_000) {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for text in [format!("in {minutes}m"), format!("every {minutes}m")] {
            let read = Schedule::read(&text, now, &TimeZone::UTC).unwrap();
            let json = serde_json::to_string(&read).unwrap();
            prop_assert_eq!(serde_json::from_str::<Schedule>(&json).unwrap(), read);
        }
    }
}
