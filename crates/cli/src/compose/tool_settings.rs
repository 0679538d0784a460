//! The settings of the tools of a program.

use std::sync::Arc;

use deputize_core::ResourceMap;
use deputize_core::sanitize::Secrets;
use deputize_cron::JobSettings;
use deputize_documents::SkillLibrary;
use deputize_tools::{GrantedRoots, MemorySettings, MessageSettings};
use deputize_web::Settings as WebSettings;

use super::input::{AssemblyInput, ComposeError};
#[cfg(feature = "browser")]
use super::settings::browser;
#[cfg(feature = "session-search")]
use super::settings::session_search;
use super::settings::{built_in, memory_files, skill_library};
use super::{jobs, messaging, web};

/// The settings of the tools of a program.
pub(crate) struct ToolSettings {
    built_in: deputize_tools::Settings,
    roots: Arc<GrantedRoots>,
    pub(crate) skills: SkillLibrary,
    memory: MemorySettings,
    web: WebSettings,
    pub(crate) messages: MessageSettings,
    jobs: JobSettings,
    #[cfg(feature = "browser")]
    pub(super) browser: deputize_browser::BrowserSettings,
    #[cfg(feature = "session-search")]
    session_search: deputize_session_index::SessionSearchSettings,
}

impl ToolSettings {
    /// Reads them from the configuration and the environment.
    pub(super) fn new(
        from: &AssemblyInput<'_>,
        person_available: bool,
    ) -> Result<Self, ComposeError> {
        let (config, env) = (from.config, from.environment);
        Ok(Self {
            built_in: built_in(from),
            roots: Arc::new(GrantedRoots::of(&from.cwd)),
            skills: skill_library(from),
            memory: MemorySettings { files: memory_files(env, Secrets::default()) },
            web: web::settings(config, env)?,
            messages: messaging::settings(config, env, &from.clock),
            jobs: jobs::settings(from, person_available),
            #[cfg(feature = "browser")]
            browser: browser(config),
            #[cfg(feature = "session-search")]
            session_search: session_search(env),
        })
    }

    /// Inserts them into a session's settings. The tools keep these secrets out of what they write.
    pub(super) fn insert_into(&self, settings: &ResourceMap, secrets: &Secrets) {
        let secrets = || secrets.clone();
        settings.get_or_insert_with(|| self.built_in.clone());
        settings.share(Arc::clone(&self.roots));
        settings.get_or_insert_with(|| self.skills.clone());
        settings.get_or_insert_with(|| self.memory.clone().with_secrets(&secrets()));
        settings.get_or_insert_with(|| WebSettings { secrets: secrets(), ..self.web.clone() });
        settings
            .get_or_insert_with(|| MessageSettings { secrets: secrets(), ..self.messages.clone() });
        settings.get_or_insert_with(|| JobSettings { secrets: secrets(), ..self.jobs.clone() });
        #[cfg(feature = "browser")]
        settings.get_or_insert_with(|| self.browser.clone());
        #[cfg(feature = "session-search")]
        settings.get_or_insert_with(|| self.session_search.clone());
    }

    /// Removes what earlier sessions that were killed left where agents write.
    pub(super) fn remove_leftovers(&self) {
        self.roots.remove_leftovers();
    }
}
