//! When a job runs: cron fields, intervals and single times.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use deputize_core::sanitize::for_terminal_line;
use deputize_core::wording::one_line;
use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, Zoned};
use serde::{Deserialize, Serialize};

/// Characters of a schedule at most.
const SCHEDULE_CHARS: usize = 120;
/// The shortest interval.
const SHORTEST: SignedDuration = SignedDuration::from_secs(60);
/// The longest interval, and the latest single time from now: ten years.
const LONGEST: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);
/// Why a time is refused that lies beyond it.
const TOO_FAR: &str = "its next time is more than ten years away; write an earlier one";
/// What can be a schedule, for errors.
const FORMS: &str = "write five cron fields such as `30 2 * * *`, `every 2h`, `in 20m`, or \
    `at 2026-12-01T09:00`, and a time zone such as Europe/Berlin behind it if it is not the local one";

/// The five fields, with the values that each has.
const CRON_FIELDS: [(&str, &str); 5] = [
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day of the week", "0 to 7 or SUN to SAT"),
];

/// When a job runs, and in which time zone.
///
/// Its text is one of these. Cron fields and a single time without an offset may have the name of a
/// time zone behind them, unless the local one is meant:
///
/// - five cron fields, or a nickname such as `@daily`.
/// - `every 2h`: an interval of at least a minute. A day has 24 hours.
/// - `at 2026-12-01T09:00`: a single time, with an offset if wanted.
/// - `in 20m`: a single time from now. It becomes `at …` when it is read by [`Schedule::read`].
///
/// A fixed time that a clock change skips is when the clock has changed; one that comes twice is the
/// first.
///
/// ```
/// use deputize_cron::Schedule;
/// use jiff::{Timestamp, tz::TimeZone};
///
/// let schedule: Schedule = "30 2 * * * UTC".parse()?;
/// let now: Timestamp = "2026-11-27T10:00:00Z".parse()?;
/// let next = schedule.next_after(now, Timestamp::UNIX_EPOCH, &TimeZone::UTC);
/// assert_eq!(next, Some("2026-11-28T02:30:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Schedule {
    text: String,
    times: Times,
    /// `None` for the local one.
    zone: Option<TimeZone>,
}

#[derive(Clone, PartialEq)]
enum Times {
    Cron(Box<Cron>),
    Every(SignedDuration),
    At(SingleTime),
}

impl Times {
    /// Returns why no time zone may stand behind them; `None` if one may.
    const fn ignores_zone(&self) -> Option<&'static str> {
        match self {
            Self::Every(_) => Some("`every` counts alike in every time zone"),
            Self::At(SingleTime::Instant(_)) => Some("its time has an offset or a zone already"),
            _ => None,
        }
    }
}

/// A single time.
#[derive(Clone, Copy, PartialEq)]
enum SingleTime {
    Instant(Timestamp),
    /// On the clock of the schedule's time zone.
    Civil(DateTime),
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid schedule: {why}")]
pub struct ScheduleError {
    text: String,
    why: String,
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({})", self.text)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> Self {
        schedule.text
    }
}

impl TryFrom<String> for Schedule {
    type Error = ScheduleError;

    fn try_from(text: String) -> Result<Self, ScheduleError> {
        text.parse()
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let fault = |why: String| ScheduleError { text: for_terminal_line(text, 60), why };
        if text.chars().count() > SCHEDULE_CHARS {
            return Err(fault(format!("it has more than {SCHEDULE_CHARS} characters")));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, zone) = split_zone(&words).map_err(fault)?;
        let times = match words {
            [] => return Err(fault(FORMS.to_owned())),
            ["every", rest @ ..] => Times::Every(interval(&rest.join(" ")).map_err(fault)?),
            ["at", rest @ ..] => Times::At(single_time(&rest.join(" ")).map_err(fault)?),
            ["in", ..] => {
                return Err(fault("`in` counts from now; write `at` and the time".into()));
            }
            fields => Times::Cron(Box::new(cron(fields).map_err(fault)?)),
        };
        if let Some(zone) = zone.as_ref().and_then(TimeZone::iana_name)
            && let Some(why) = times.ignores_zone()
        {
            return Err(fault(format!("{why}: leave out `{zone}`")));
        }
        let text = one_line(text);
        Ok(Self { text, times, zone })
    }
}

impl Schedule {
    /// Reads a text that a person or a model wrote now, in a local time zone. The schedule must have
    /// a time that is still to come.
    ///
    /// # Errors
    /// If it is no schedule, or has no time to come.
    pub fn read(text: &str, now: Timestamp, local: &TimeZone) -> Result<Self, ScheduleError> {
        let fault =
            |why: &str| ScheduleError { text: for_terminal_line(text, 60), why: why.to_owned() };
        let schedule: Self = match text.trim().strip_prefix("in ") {
            None => text.parse()?,
            Some(rest) => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let (words, zone) = split_zone(&words).map_err(|why| fault(&why))?;
                if let Some(zone) = zone.as_ref().and_then(TimeZone::iana_name) {
                    return Err(fault(&format!(
                        "`in` counts from now in every time zone: leave out `{zone}`"
                    )));
                }
                let wait = interval(&words.join(" ")).map_err(|why| fault(&why))?;
                let at = now.checked_add(wait).map_err(|_| fault(TOO_FAR))?;
                format!("at {at:.0}").parse()?
            }
        };
        // A time that no clock of this program reaches is none at all, and not one that passed.
        let is_reached = || schedule.next_after(Timestamp::MIN, now, local).is_some();
        match schedule.next_after(now, now, local) {
            None if !schedule.is_single() => {
                Err(fault("no date has that day and month; write one that the calendar has"))
            }
            None if is_reached() => Err(fault("its time has passed; write one to come")),
            Some(next) if next.duration_since(now) <= LONGEST => Ok(schedule),
            _ => Err(fault(TOO_FAR)),
        }
    }

    /// Returns whether it has one time only.
    #[must_use]
    pub const fn is_single(&self) -> bool {
        matches!(self.times, Times::At(_))
    }

    /// Returns its first time after another one; `None` if there is none. Intervals count from
    /// `anchor`. The local time zone is that of a schedule without one.
    #[must_use]
    pub fn next_after(
        &self,
        after: Timestamp,
        anchor: Timestamp,
        local: &TimeZone,
    ) -> Option<Timestamp> {
        let zone = self.zone.as_ref().unwrap_or(local);
        let next = match &self.times {
            Times::Cron(cron) => {
                let after = after.to_zoned(zone.clone());
                cron.find_next_occurrence(&after, false).ok()?.timestamp()
            }
            Times::Every(interval) => next_interval(*interval, after, anchor)?,
            Times::At(SingleTime::Instant(at)) => *at,
            Times::At(SingleTime::Civil(at)) => on_clock(*at, zone)?,
        };
        (next > after).then_some(next)
    }
}

/// Returns when a clock shows a time: if that is twice, the first time; if never, when it was put
/// forward.
fn on_clock(at: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let possible = zone.to_ambiguous_timestamp(at);
    if !matches!(possible.offset(), AmbiguousOffset::Gap { .. }) {
        return possible.compatible().ok();
    }
    let before = possible.earlier().ok()?;
    zone.following(before).next().map(|change| change.timestamp())
}

fn next_interval(
    interval: SignedDuration,
    after: Timestamp,
    anchor: Timestamp,
) -> Option<Timestamp> {
    let seconds = interval.as_secs();
    let passed = after.duration_since(anchor).as_secs().max(0);
    let count = passed.checked_div(seconds)?.checked_add(1)?;
    anchor.checked_add(SignedDuration::from_secs(seconds.checked_mul(count)?)).ok()
}

/// Splits off the name of a time zone, which is the last word if it looks like one.
fn split_zone<'w, 't>(words: &'w [&'t str]) -> Result<(&'w [&'t str], Option<TimeZone>), String> {
    let Some((last, before)) = words.split_last() else { return Ok((words, None)) };
    let names_place = last.contains('/')
        && last.starts_with(|c: char| c.is_ascii_alphabetic())
        && last.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
    if !names_place && !last.eq_ignore_ascii_case("utc") && !is_bare_zone(last, before) {
        return Ok((words, None));
    }
    let zone = TimeZone::get(last);
    let zone = zone.map_err(|_| {
        let zone = for_terminal_line(last, 40);
        format!("there is no time zone `{zone}`; write one such as Europe/Berlin")
    })?;
    Ok((before, Some(zone)))
}

/// Returns whether a word can only be a time zone without `/`, such as CET: behind five fields, a
/// nickname or a single time.
fn is_bare_zone(word: &str, before: &[&str]) -> bool {
    let is_expected = match before {
        ["at", at, ..] => at.starts_with(|c: char| c.is_ascii_digit()),
        ["every" | "in", ..] => false,
        [nickname] => nickname.starts_with('@'),
        fields => fields.len() == CRON_FIELDS.len(),
    };
    // Six fields are cron with seconds: their last one is a day.
    let is_day = || parser().parse(&format!("* * * * {word}")).is_ok();
    is_expected
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+'))
        && !is_day()
}

fn interval(text: &str) -> Result<SignedDuration, String> {
    let unreadable =
        || "write an interval in days, hours and minutes, such as 1d, 2h or 1h30m".to_owned();
    let span: Span = text.parse().map_err(|_| unreadable())?;
    let interval =
        span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| unreadable())?;
    if interval < SHORTEST {
        return Err("a minute is the shortest interval".to_owned());
    }
    if interval > LONGEST {
        return Err("ten years are the longest interval".to_owned());
    }
    Ok(SignedDuration::from_secs(interval.as_secs()))
}

fn single_time(text: &str) -> Result<SingleTime, String> {
    // A time with a zone in brackets, which is on the clock of that zone.
    if let Ok(pieces) = Pieces::parse(text)
        && pieces.offset().is_none()
        && let Ok(Some(zone)) = pieces.to_time_zone()
    {
        let at = pieces.date().to_datetime(pieces.time().unwrap_or_else(Time::midnight));
        return on_clock(at, &zone).map(SingleTime::Instant).ok_or_else(|| TOO_FAR.to_owned());
    }
    // One with an offset.
    let instant = text.parse::<Zoned>().map(|at| at.timestamp());
    if let Ok(at) = instant.or_else(|_| text.parse::<Timestamp>()) {
        return Ok(SingleTime::Instant(at));
    }
    let at = text.parse::<DateTime>().ok().filter(|_| !text.contains('['));
    at.map(SingleTime::Civil)
        .ok_or_else(|| "its time cannot be used; write it as 2026-12-01T09:00".to_owned())
}

fn cron(fields: &[&str]) -> Result<Cron, String> {
    let is_nickname = matches!(fields, [name] if name.starts_with('@'));
    if fields.len() != 5 && !is_nickname {
        return Err(FORMS.to_owned());
    }
    // A nickname of the parser has seconds.
    let parsed = if is_nickname {
        CronParser::new().parse(&fields.join(" "))
    } else {
        parser().parse(&fields.join(" "))
    };
    parsed.map_err(|_| describe_fault(fields))
}

/// Says which field cannot be used, and what may stand there.
fn describe_fault(fields: &[&str]) -> String {
    if let [nickname] = fields {
        let nickname = for_terminal_line(nickname, 40);
        return format!(
            "there is no `{nickname}`; there are @hourly, @daily, @weekly, @monthly and @yearly"
        );
    }
    let wrong = fields.iter().zip(CRON_FIELDS).enumerate().find(|(index, (field, _))| {
        let mut alone = ["*"; CRON_FIELDS.len()];
        if let Some(place) = alone.get_mut(*index) {
            *place = field;
        }
        parser().parse(&alone.join(" ")).is_err()
    });
    match wrong {
        Some((_, (field, (name, values)))) => format!(
            "`{}` cannot be the {name}: write {values}, `*`, a list such as `1,3`, a range such as \
             `1-3`, or steps such as `*/2`",
            for_terminal_line(field, 40)
        ),
        None => FORMS.to_owned(),
    }
}

/// Returns the parser of five fields.
fn parser() -> CronParser {
    CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build()
}

#[cfg(test)]
mod tests;
