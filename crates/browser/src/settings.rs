//! What a program may set for the browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deputize_core::setting_names::SettingNames;
use deputize_core::{Resource, ResourceMap};

/// Browsers of one session that may run at once, unless set otherwise.
pub const BROWSERS: usize = 4;
/// Seconds that a page may take to load, unless set otherwise.
pub const TIMEOUT_SECONDS: u32 = 30;
/// Bytes of a page's text in one result, unless set otherwise.
pub const PAGE_BYTES: usize = 16 * 1024;

/// The settings of the browser. A program puts them into its session's settings; without them the
/// tools are not usable. Addresses are judged by the settings of the tools for the web.
#[derive(Debug, Clone, Default)]
pub struct BrowserSettings {
    /// Whether agents may use a browser.
    pub enabled: bool,
    /// The program, which is a Chromium; `None` to look for one in the `PATH` of commands.
    pub program: Option<PathBuf>,
    /// Limits.
    pub limits: BrowserLimits,
    /// The host's names of settings: `browser_enabled`, `browser_program` and `allow_hosts`.
    pub setting_names: SettingNames,
}

impl Resource for BrowserSettings {}

impl BrowserSettings {
    /// Creates the settings of a program whose agents may use a browser.
    #[must_use]
    pub fn enabled() -> Self {
        Self { enabled: true, ..Self::default() }
    }

    /// Returns those of a session.
    pub(crate) fn of(settings: &ResourceMap) -> Arc<Self> {
        settings.get_or_insert_with(Self::default)
    }
}

/// Limits of browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrowserLimits {
    /// Browsers of one session that run at once. Each agent has one at most.
    pub browsers: usize,
    /// Time that a page may take to load.
    pub timeout: Duration,
    /// Bytes of a page's text in one result.
    pub page_bytes: usize,
}

impl Default for BrowserLimits {
    fn default() -> Self {
        Self {
            browsers: BROWSERS,
            timeout: Duration::from_secs(TIMEOUT_SECONDS.into()),
            page_bytes: PAGE_BYTES,
        }
    }
}
