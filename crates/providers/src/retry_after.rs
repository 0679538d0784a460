//! How long a server asks to wait: in seconds, milliseconds, as a date, or in words.

use deputize_core::wording::one_line;

use std::time::Duration;

/// From the headers `retry-after-ms` and `retry-after` and, for dates, the server's own `date`
/// or our time in milliseconds since 1970.
pub(crate) fn from_headers(
    header: impl Fn(&str) -> Option<String>,
    now_ms: u64,
) -> Option<Duration> {
    let ms = header("retry-after-ms").and_then(|text| number(&text));
    // One that is no time does not hide the other header.
    if let Some(wait) = ms.and_then(|ms| seconds(ms / 1000.0)) {
        return Some(wait);
    }
    let text = header("retry-after")?;
    if let Some(amount) = number(&text) {
        return seconds(amount);
    }
    let until = date(&text)?;
    let now = header("date").as_deref().and_then(date);
    let now = now.unwrap_or_else(|| i64::try_from(now_ms).unwrap_or(i64::MAX));
    Some(Duration::from_millis(u64::try_from(until.saturating_sub(now)).unwrap_or(0)))
}

/// From words such as `try again in 1m2.5s`, `retry in 858ms`, `retry after 20 seconds`.
pub(crate) fn from_words(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let starts = ["again in ", "retry in ", "retry after ", "again after "];
    let rest = starts.iter().find_map(|start| text.split_once(start))?.1;
    let mut rest = rest;
    let mut seconds = 0.0;
    let mut found = false;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        // A full stop that ends the sentence is no part of the number.
        let Ok(amount) = amount.trim_end_matches('.').parse::<f64>() else { break };
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        seconds += amount
            * match unit {
                "ms" | "milliseconds" => 0.001,
                "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
                "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                _ => break,
            };
        found = true;
        rest = tail;
    }
    found.then(|| self::seconds(seconds)).flatten()
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// A wait of so many seconds; the longest there is when it is longer, nothing when it is no time.
pub(crate) fn seconds(seconds: f64) -> Option<Duration> {
    let longest = Duration::from_millis(u64::MAX);
    if !(seconds.is_finite() && seconds >= 0.0) {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).map_or(longest, |wait| wait.min(longest)))
}

/// Returns a wait as people read it, rounded up, in at most two units; `None` if it is none.
pub(crate) fn format_wait(wait: Duration) -> Option<String> {
    const MINUTE: u128 = 60;
    const HOUR: u128 = 60 * MINUTE;
    const DAY: u128 = 24 * HOUR;
    const TWO_DAYS: u128 = 2 * DAY;
    const YEAR: u128 = 365 * DAY;
    const SECONDS: TimeUnit = TimeUnit { seconds: 1, name: "s" };
    const MINUTES: TimeUnit = TimeUnit { seconds: MINUTE, name: "min" };
    const HOURS: TimeUnit = TimeUnit { seconds: HOUR, name: "h" };
    let ms = wait.as_nanos().div_ceil(1_000_000);
    let seconds = wait.as_nanos().div_ceil(1_000_000_000);
    Some(match seconds {
        0 => return None,
        1 if ms < 1000 => format!("{ms} ms"),
        1..=9 if !ms.is_multiple_of(1000) => {
            format!("{}.{} s", ms.div_ceil(100) / 10, ms.div_ceil(100) % 10)
        }
        1..=MINUTE => format!("{seconds} s"),
        61..HOUR => pair(seconds, MINUTES, SECONDS),
        HOUR..TWO_DAYS => pair(seconds, HOURS, MINUTES),
        TWO_DAYS..YEAR => format!("{} days", seconds.div_ceil(DAY)),
        _ => "more than a year".to_owned(),
    })
}

/// So many seconds in two units, the smaller one only when there is any of it.
fn pair(seconds: u128, large: TimeUnit, small: TimeUnit) -> String {
    let all = seconds.div_ceil(small.seconds);
    let ratio = large.seconds / small.seconds;
    let many = format!("{} {}", all / ratio, large.name);
    match all % ratio {
        0 => many,
        rest => format!("{many} {rest} {}", small.name),
    }
}

#[derive(Clone, Copy)]
struct TimeUnit {
    seconds: u128,
    name: &'static str,
}

/// The two older forms of an HTTP date, which a server may still send: that of RFC 850 and that of
/// `asctime`.
const OLDER_DATES: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"];

/// Milliseconds since 1970 of an HTTP date.
fn date(text: &str) -> Option<i64> {
    // `asctime` pads the day with a space.
    let text = one_line(text);
    let usual = jiff::fmt::rfc2822::DateTimeParser::new().parse_zoned(&text);
    let older = |form: &str| {
        let civil = jiff::civil::DateTime::strptime(form, &text).ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let usual = usual.ok().map(|zoned| zoned.timestamp());
    let timestamp = usual.or_else(|| OLDER_DATES.into_iter().find_map(older))?;
    Some(timestamp.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(headers: &[(&str, &str)]) -> Option<u128> {
        let find = |name: &str| {
            headers.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        from_headers(find, 784_111_777_000).map(|wait| wait.as_millis())
    }

    #[test]
    fn all_forms_of_the_header() {
        assert_eq!(ms(&[("retry-after", "2")]), Some(2000));
        assert_eq!(ms(&[("retry-after", " 0.4 ")]), Some(400));
        assert_eq!(ms(&[("retry-after", "9"), ("retry-after-ms", "150")]), Some(150));
        assert_eq!(ms(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]), Some(10_000));
        assert_eq!(ms(&[("retry-after", "Sunday, 06-Nov-94 08:49:47 GMT")]), Some(10_000));
        assert_eq!(ms(&[("retry-after", "Sun Nov  6 08:49:47 1994")]), Some(10_000));
        assert_eq!(ms(&[("retry-after", "Sun Nov 16 08:49:37 1994")]), None, "no such day");
        for no_time in ["-1", "NaN", "soon", ""] {
            let both = [("retry-after-ms", no_time), ("retry-after", "2")];
            assert_eq!(ms(&both), Some(2000), "{no_time}");
        }
        let date = ("date", "Sun, 06 Nov 1994 08:49:44 GMT");
        assert_eq!(ms(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), date]), Some(3000));
        assert_eq!(ms(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        for bad in ["-1", "soon", "NaN", "inf", "1e400", "Sun, 99 Nov 1994 08:00:00 GMT", ""] {
            assert_eq!(ms(&[("retry-after", bad)]), None, "{bad}");
        }
    }

    #[test]
    fn a_wait_that_is_too_long_to_count_is_the_longest() {
        for long in ["99999999999999999999", "1e300"] {
            assert_eq!(ms(&[("retry-after", long)]), Some(u128::from(u64::MAX)), "{long}");
        }
        assert_eq!(
            from_words("retry in 99999999999999999999 hours").unwrap().as_millis(),
            u64::MAX.into()
        );
    }

    #[test]
    fn a_wait_is_shown_as_people_read_it() {
        let describe = |ms| format_wait(Duration::from_millis(ms)).unwrap_or_default();
        let day = 24 * 3_600_000;
        let rows = [0, 1, 150, 999, 1000, 1500, 1501, 60_000, 62_500, 360_000, 7_200_000];
        let rows = rows.into_iter().chain([7_260_001, day, 3 * day + 1, 400 * day, u64::MAX]);
        let actual: Vec<String> = rows.map(describe).collect();
        assert_eq!(
            actual.join(", "),
            ", 1 ms, 150 ms, 999 ms, 1 s, 1.5 s, 1.6 s, 60 s, 1 min 3 s, 6 min, 2 h, \
             2 h 2 min, 24 h, 4 days, more than a year, more than a year"
        );
    }

    #[test]
    fn words() {
        let ms = |text: &str| from_words(text).map(|wait| wait.as_millis());
        assert_eq!(ms("Please try again in 20s. Visit"), Some(20_000));
        assert_eq!(ms("Please try again in 858ms."), Some(858));
        assert_eq!(ms("try again in 1m2.5s"), Some(62_500));
        assert_eq!(ms("Retry after 3 seconds"), Some(3000));
        assert_eq!(ms("Please retry in 7."), Some(7000));
        assert_eq!(ms("try again in a moment"), None);
        assert_eq!(ms("try again in 5 parsecs"), None);
        assert_eq!(ms("again"), None);
    }
}
