//! How long a server asks to wait: in seconds, milliseconds, as a date, or in words.

use std::time::Duration;

/// From the headers `retry-after-ms` and `retry-after` and, for dates, the server's own `date`
/// or our time in milliseconds since 1970.
pub(crate) fn from_headers(
    header: impl Fn(&str) -> Option<String>,
    now_ms: u64,
) -> Option<Duration> {
    let ms = header("retry-after-ms").and_then(|text| number(&text));
    if let Some(ms) = ms {
        return duration(ms / 1000.0);
    }
    let text = header("retry-after")?;
    if let Some(seconds) = number(&text) {
        return duration(seconds);
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
    let (mut rest, mut seconds, mut found) = (rest, 0.0, false);
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
    found.then(|| duration(seconds)).flatten()
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn duration(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Milliseconds since 1970 of an HTTP date.
fn date(text: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::DateTimeParser::new().parse_zoned(text.trim()).ok()?;
    Some(zoned.timestamp().as_millisecond())
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
        let date = ("date", "Sun, 06 Nov 1994 08:49:44 GMT");
        assert_eq!(ms(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"), date]), Some(3000));
        assert_eq!(ms(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        for bad in ["-1", "soon", "NaN", "inf", "1e400", "Sun, 99 Nov 1994 08:00:00 GMT", ""] {
            assert_eq!(ms(&[("retry-after", bad)]), None, "{bad}");
        }
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
