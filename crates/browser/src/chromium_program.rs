//! The Chromium of this machine, and how it is started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use deputize_core::ResourceMap;
use deputize_process::{Command, base_env, resolve_program};

use crate::settings::BrowserSettings;

/// Names of the program, in the order in which they are looked for.
const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];

/// Starts the program with its protocol on descriptors 3 and 4, which are its input and its output
/// as this program sees them.
const START: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >&2";

/// Parts of Chromium that send something without a page, keep what is not asked for, or go around
/// the proxy.
const FEATURES_OFF: &str = "AimEnabled,AimServerEligibilityEnabled,AutofillServerCommunication,\
    BackForwardCache,CertificateTransparencyComponentUpdater,DnsOverHttps,\
    HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,InterestFeedV2,MediaRouter,OptimizationHints,\
    PreconnectToSearch,Prerender2,Translate";
/// Where Chromium asks who is signed in: a host that the proxy never connects to.
const ACCOUNTS: &str = "--gaia-url=https://update.googleapis.com/";

/// Preferences of a new profile. Chromium sends its maker a part of a hash of each password that a
/// page is sent, fills in forms, judges addresses and suggests searches, unless its user says no.
const PREFERENCES: &str = r#"{
  "alternate_error_pages": {"enabled": false},
  "autofill": {"credit_card_enabled": false, "profile_enabled": false},
  "credentials_enable_autosignin": false,
  "credentials_enable_service": false,
  "net": {"network_prediction_options": 2},
  "profile": {"password_manager_leak_detection": false},
  "safebrowsing": {"enabled": false, "enhanced": false, "scout_reporting_enabled": false},
  "search": {"suggest_enabled": false},
  "signin": {"allowed": false, "allowed_on_next_startup": false},
  "spellcheck": {"use_spelling_service": false},
  "translate": {"enabled": false}
}"#;

/// Chromium on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChromiumProgram {
    path: PathBuf,
    env: BTreeMap<OsString, OsString>,
}

impl ChromiumProgram {
    /// Finds the program that the settings name, or one in the `PATH` that commands have. Nothing is
    /// started.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn find(settings: &ResourceMap) -> Result<Self, String> {
        let own = BrowserSettings::of(settings);
        if !own.enabled {
            let setting = own.setting_names.note("browser_enabled");
            return Err(format!("the browser is off; the user can turn it on{setting}"));
        }
        let commands = &settings.get_or_insert_with(deputize_tools::Settings::default).commands;
        let env = base_env(&commands.env);
        if let Some(path) = &own.program {
            let found = resolve_program(path.as_os_str(), None);
            let setting = own.setting_names.note("browser_program");
            let path = found.map_err(|error| format!("the browser{setting}: {error}"))?;
            return Ok(Self { path, env });
        }
        let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let found = NAMES.iter().find_map(|name| resolve_program(name.as_ref(), path).ok());
        match found {
            Some(path) => Ok(Self { path, env }),
            None => Err(format!(
                "no Chromium is in PATH ({}): install one{}",
                NAMES.join(", "),
                match own.setting_names.name("browser_program") {
                    "" => String::new(),
                    name => format!(", or set {name} to its path"),
                }
            )),
        }
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the place for temporary files that commands have.
    pub(crate) fn temporary(&self) -> &Path {
        let named = self.env.get(OsStr::new("TMPDIR")).map(Path::new);
        named.filter(|path| path.is_absolute()).unwrap_or(Path::new("/tmp"))
    }

    /// Returns the command that starts it with a profile folder and the port of its proxy. Its
    /// protocol is on the command's input and output.
    pub(crate) fn command(&self, profile: &Path, proxy: u16) -> Command {
        let mut command = Command::new("/bin/sh", "/");
        let mut args: Vec<OsString> = vec!["-c".into(), START.into(), self.path.clone().into()];
        args.extend(arguments(profile, proxy));
        if runs_without_sandbox() {
            args.push("--no-sandbox".into());
        }
        args.push("about:blank".into());
        command.args = args;
        command.env = self.env.clone();
        // What it and its libraries keep is in the profile, and goes with it.
        for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
            command.env.insert(name.into(), profile.into());
        }
        command
    }
}

/// Returns whether Chromium is started without its own sandbox: as root it does not run with it.
#[must_use]
pub fn runs_without_sandbox() -> bool {
    rustix::process::geteuid().is_root()
}

/// Writes the preferences into a new profile folder.
pub(crate) fn write_preferences(profile: &Path) -> io::Result<()> {
    let folder = profile.join("Default");
    fs::create_dir(&folder)?;
    fs::write(folder.join("Preferences"), PREFERENCES)
}

fn arguments(profile: &Path, proxy: u16) -> Vec<OsString> {
    let mut folder = OsString::from("--user-data-dir=");
    folder.push(profile);
    let proxy = format!("--proxy-server=http://127.0.0.1:{proxy}");
    let features = format!("--disable-features={FEATURES_OFF}");
    let fixed = [
        "--headless",
        "--remote-debugging-pipe",
        ACCOUNTS,
        // Everything goes through the proxy, addresses of this machine too, and no name is resolved
        // by the browser.
        "--proxy-bypass-list=<-loopback>",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--disable-quic",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--dns-prefetch-disable",
        "--no-first-run",
        "--no-default-browser-check",
        "--no-pings",
        "--no-service-autorun",
        "--disable-background-networking",
        "--disable-breakpad",
        "--disable-client-side-phishing-detection",
        "--disable-component-extensions-with-background-pages",
        "--disable-component-update",
        "--disable-crash-reporter",
        "--disable-default-apps",
        "--disable-dev-shm-usage",
        "--disable-domain-reliability",
        "--disable-extensions",
        "--disable-gpu",
        "--disable-notifications",
        "--disable-search-engine-choice-screen",
        "--disable-sync",
        "--deny-permission-prompts",
        "--metrics-recording-only",
        "--mute-audio",
        "--password-store=basic",
        "--use-mock-keychain",
        "--window-size=1280,900",
    ];
    let fixed = fixed.into_iter().map(OsString::from);
    [folder, proxy.into(), features.into()].into_iter().chain(fixed).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use deputize_core::setting_names::SettingNames;
    use deputize_tools::CommandSettings;

    use super::*;

    fn settings(path: &Path, browser: BrowserSettings) -> ResourceMap {
        let settings = ResourceMap::default();
        let env = BTreeMap::from([("PATH".into(), path.into())]);
        let commands = CommandSettings { env, ..CommandSettings::default() };
        let tools = deputize_tools::Settings { commands, ..deputize_tools::Settings::default() };
        settings.get_or_insert_with(|| tools);
        settings.get_or_insert_with(|| browser);
        settings
    }

    #[test]
    fn a_program_is_found_or_it_is_said_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let found = |browser| {
            ChromiumProgram::find(&settings(dir.path(), browser)).map(|program| program.path)
        };
        let setting_names = SettingNames::from_iter([
            ("browser_enabled", "browser.enabled"),
            ("browser_program", "browser.program"),
        ]);
        let off = BrowserSettings { setting_names: setting_names.clone(), ..Default::default() };
        let on = BrowserSettings { enabled: true, ..off.clone() };
        assert_eq!(
            found(off).unwrap_err(),
            "the browser is off; the user can turn it on (browser.enabled)"
        );
        let none = found(on.clone()).unwrap_err();
        assert!(none.starts_with("no Chromium is in PATH (chromium, "), "{none}");
        assert!(none.ends_with("install one, or set browser.program to its path"), "{none}");
        let named = BrowserSettings { program: Some("/no/such".into()), ..on.clone() };
        let missing = found(named).unwrap_err();
        assert_eq!(missing, "the browser (browser.program): program `/no/such` does not exist");
        let program = dir.path().join("google-chrome");
        fs::write(&program, "").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(on), Ok(program));
    }

    /// These make the proxy the only way out: a change of one must be meant.
    #[test]
    fn the_proxy_is_the_only_way_out() {
        let arguments = arguments(Path::new("/p"), 4000);
        for needed in [
            "--proxy-server=http://127.0.0.1:4000",
            "--proxy-bypass-list=<-loopback>",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            "--disable-quic",
            "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        ] {
            assert!(arguments.iter().any(|it| it == needed), "{needed}");
        }
    }
}
