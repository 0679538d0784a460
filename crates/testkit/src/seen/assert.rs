//! Assertions on requests. Each failure shows the request.

use deputize_core::ToolResult;

use super::SeenRequest;
use crate::prefix::PrefixDiff;

impl SeenRequest {
    /// Asserts that the system text or a message contains this text.
    ///
    /// # Panics
    /// If none does.
    #[track_caller]
    pub fn assert_says(&self, text: &str) -> &Self {
        self.hold(self.says(text), format_args!("nothing in it says `{text}`"))
    }

    /// Asserts that neither the system text nor a message contains this text.
    ///
    /// # Panics
    /// If one does.
    #[track_caller]
    pub fn assert_silent_about(&self, text: &str) -> &Self {
        self.hold(!self.says(text), format_args!("something in it says `{text}`"))
    }

    /// Asserts that exactly these tools are offered, in this order.
    ///
    /// # Panics
    /// If other tools are offered.
    #[track_caller]
    pub fn assert_tools(&self, names: &[&str]) -> &Self {
        let offered: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        self.hold(offered == names, format_args!("it offers {offered:?} and not {names:?}"))
    }

    /// Asserts that the last result of a call contains this text.
    ///
    /// # Panics
    /// If it does not, or there is none.
    #[track_caller]
    pub fn assert_result(&self, text: &str) -> &Self {
        let results = self.results();
        let last = results.last().map_or("nothing", |result: &&ToolResult| result.text.as_str());
        self.hold(last.contains(text), format_args!("the last result is not `{text}` but {last}"))
    }

    /// Asserts that it continues an earlier request: the same tools and system text, and its
    /// messages followed by more. The provider's cache of the earlier request then serves it
    /// completely.
    ///
    /// # Panics
    /// If a part of the earlier request is missing; the message shows the place.
    #[track_caller]
    pub fn assert_continues(&self, earlier: &Self) -> &Self {
        let same = self.model == earlier.model
            && self.tools == earlier.tools
            && self.system == earlier.system
            && self.messages.starts_with(&earlier.messages);
        let prefix = PrefixDiff::of(&earlier.to_string(), &self.to_string());
        let number = earlier.number;
        self.hold(same, format_args!("it does not continue request {number}: {prefix}"))
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a test that does not hold fails")]
    fn hold(&self, holds: bool, why: std::fmt::Arguments<'_>) -> &Self {
        if !holds {
            panic!("request {}: {why}\n\n{self}", self.number);
        }
        self
    }
}
