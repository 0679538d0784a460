//! A number of tokens, a price, a time: each in a few words.

use deputize_core::compaction::Compaction;
use deputize_core::cut_result::CutResult;

pub(super) use deputize_core::wording::count;

/// A number of tokens, as `950`, `12.3k`, `4.5M`.
pub(crate) fn tokens(count: u64) -> String {
    let tenths = |unit: u64| (count / unit, count % unit * 10 / unit);
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => {
            let (whole, tenth) = tenths(1_000);
            format!("{whole}.{tenth}k")
        }
        _ => {
            let (whole, tenth) = tenths(1_000_000);
            format!("{whole}.{tenth}M")
        }
    }
}

/// Returns dollars as `$0.0028` or `$12.34`; `None` if the price is unknown or zero.
pub(crate) fn dollars(usd: Option<f64>) -> Option<String> {
    match usd? {
        usd if usd <= 0.0 => None,
        0.0..0.0001 => Some("<$0.0001".to_owned()),
        usd @ 0.0..1.0 => Some(format!("${usd:.4}")),
        usd => Some(format!("${usd:.2}")),
    }
}

/// A compaction of a conversation, in a few words.
pub(crate) fn compaction_words(compaction: &Compaction) -> String {
    let messages = count(compaction.part.count(), "earlier message");
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let (before, after) = (kib(compaction.bytes_before), kib(compaction.bytes_after));
    format!("context compacted: a summary stands for {messages} ({before} → {after} KiB)")
}

/// What was left out of results that do not fit into the context.
pub(crate) fn cut_words(results: &[CutResult]) -> String {
    let bytes: u64 = results.iter().map(|result| result.left_out).sum();
    let results = count(results.len(), "result");
    format!("context nearly full: {} KiB of {results} left out", bytes.div_ceil(1024))
}

/// A running time, as `7 s`, `2 m 05 s`, `1 h 02 m`.
pub(crate) fn running(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

/// A time that is over, as `12.3 s`.
pub(crate) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [tokens(0), tokens(999), tokens(12_345), tokens(4_560_000)],
            ["0", "999", "12.3k", "4.5M"]
        );
        assert_eq!(
            [running(7_900), running(125_000), running(3_725_000)],
            ["7 s", "2 m 05 s", "1 h 02 m"]
        );
        assert_eq!(seconds(12_345), "12.3 s");
        let describe = |usd| dollars(Some(usd)).unwrap_or_default();
        assert_eq!(
            [describe(0.00001), describe(0.002_84), describe(0.5), describe(12.345)],
            ["<$0.0001", "$0.0028", "$0.5000", "$12.35"]
        );
        assert_eq!((dollars(None), dollars(Some(0.0))), (None, None));
    }
}
