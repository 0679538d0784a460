//! The profiles of a person, of a project and of the program.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use deputize_core::profile::Profile;

use crate::document_error::{DocumentError, DocumentFault};
use crate::document_name::check_name;
use crate::document_origin::DocumentOrigin;
use crate::profile_document::ProfileDocument;
use crate::profile_error::ProfileError;
use crate::read_text::{exact_text, read_text};
use crate::temporary_file::temporary_file;
use crate::tool_aliases::ToolAliases;
use crate::{DOCUMENT_BYTES, MOST_PROFILES};

/// Folders of a project that may have profiles.
const PROJECT_FOLDERS: [&str; 2] = [".deputize/agents", FOREIGN_FOLDER];
/// The folder of another program, whose files are read leniently.
const FOREIGN_FOLDER: &str = ".claude/agents";

/// The places of profiles. Nothing is read before it is asked for, and each time anew.
///
/// A profile of the person takes the place of a bundled one of the same name. A profile of a project
/// takes no place of another. A faulty file keeps its place: no other file stands in for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileLibrary {
    user: Option<PathBuf>,
    given: Vec<Profile>,
    bundled: Vec<&'static str>,
    project: Vec<(PathBuf, PathBuf)>,
    aliases: ToolAliases,
}

/// The profiles that could be read, and what could not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileListing {
    /// The profiles, by name.
    pub profiles: Vec<ProfileDocument>,
    /// Files that are no profiles.
    pub faults: Vec<DocumentFault>,
    /// Names that stand for such a file. No other profile has one of them.
    pub faulty: BTreeMap<String, DocumentFault>,
}

impl ProfileListing {
    /// Returns the profiles alone, and what is wrong with the file of each faulty one.
    #[must_use]
    pub fn into_profiles(self) -> (Vec<Profile>, BTreeMap<String, String>) {
        let profiles = self.profiles.into_iter().map(|document| document.profile);
        let faulty = self.faulty.into_iter().map(|(name, fault)| (name, fault.to_string()));
        (profiles.collect(), faulty.collect())
    }
}

impl ProfileLibrary {
    /// Adds a profile of the program, as the text of its file, which names it.
    #[must_use]
    pub fn with_bundled(mut self, text: &'static str) -> Self {
        self.bundled.push(text);
        self
    }

    /// Adds a profile of the person that stands in no file.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.given.push(profile);
        self
    }

    /// Sets the folder of the person's profiles, which may not exist yet.
    #[must_use]
    pub fn with_user(self, folder: impl Into<PathBuf>) -> Self {
        Self { user: Some(folder.into()), ..self }
    }

    /// Adds the profiles of a project: those of `.deputize/agents` and `.claude/agents` in `cwd` and
    /// above it up to `root`.
    #[must_use]
    pub fn with_project(mut self, cwd: &Path, root: &Path) -> Self {
        for dir in cwd.ancestors().take_while(|dir| dir.starts_with(root)) {
            let folders = PROJECT_FOLDERS.iter().map(|name| (dir.join(name), root.to_owned()));
            self.project.extend(folders);
        }
        self
    }

    /// Sets the names that other programs have for tools.
    #[must_use]
    pub fn with_aliases(self, aliases: ToolAliases) -> Self {
        Self { aliases, ..self }
    }

    /// Reads all profiles.
    #[must_use]
    pub fn list(&self) -> ProfileListing {
        let mut found = ProfileFolders { aliases: self.aliases, ..ProfileFolders::default() };
        for profile in &self.given {
            let profile = profile.clone();
            let origin = DocumentOrigin::User;
            found.add(ProfileDocument { profile, origin, path: None, notes: Vec::new() });
        }
        self.user.iter().for_each(|folder| found.read(folder, DocumentOrigin::User, None));
        for text in &self.bundled {
            let parsed = ProfileDocument::parse("", text, DocumentOrigin::Bundled, self.aliases);
            if let Ok(document) = parsed
                && !found.has(&document.profile.name)
            {
                found.add(document);
            }
        }
        for (folder, root) in &self.project {
            found.read(folder, DocumentOrigin::Project, Some(root));
        }
        let profiles = found.profiles.into_values().collect();
        ProfileListing { profiles, faults: found.faults, faulty: found.faulty }
    }

    /// Returns a profile.
    ///
    /// # Errors
    /// If there is none of this name, or its file is faulty.
    pub fn find(&self, name: &str) -> Result<ProfileDocument, ProfileError> {
        let ProfileListing { profiles, mut faulty, .. } = self.list();
        if let Some(fault) = faulty.remove(name) {
            return Err(ProfileError::Faulty { name: name.to_owned(), fault });
        }
        match profiles.iter().find(|document| document.profile.name == name) {
            Some(document) => Ok(document.clone()),
            None => {
                let known = profiles.into_iter().map(|document| document.profile.name).collect();
                Err(ProfileError::Unknown { name: name.to_owned(), known })
            }
        }
    }

    /// Creates the file of a profile of the person, and returns its path.
    ///
    /// # Errors
    /// If the text is no profile of this name, there is a file for it already, or it cannot be
    /// written.
    pub fn create(&self, name: &str, text: &str) -> Result<PathBuf, ProfileError> {
        check_name("profile", name)?;
        let parsed = ProfileDocument::parse(name, text, DocumentOrigin::User, self.aliases)?;
        if parsed.profile.name != name {
            let own = parsed.profile.name;
            let message = format!("its `name` is `{own}`, and it was to be `{name}`");
            return Err(DocumentError::whole(message).into());
        }
        let folder = self.user.as_deref().ok_or(ProfileError::NoFolder)?;
        let path = folder.join(format!("{name}.md"));
        match write_new(folder, &path, text) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ProfileError::Exists(name.to_owned()))
            }
            Err(source) => Err(ProfileError::Write { name: name.to_owned(), source }),
        }
    }
}

/// Writes a new file, whole or not at all.
fn write_new(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    temporary_file(folder, text)?.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads folders of profiles, one after the other.
#[derive(Default)]
struct ProfileFolders {
    profiles: BTreeMap<String, ProfileDocument>,
    faults: Vec<DocumentFault>,
    faulty: BTreeMap<String, DocumentFault>,
    aliases: ToolAliases,
}

impl ProfileFolders {
    fn has(&self, name: &str) -> bool {
        self.profiles.contains_key(name) || self.faulty.contains_key(name)
    }

    fn add(&mut self, document: ProfileDocument) {
        self.profiles.insert(document.profile.name.clone(), document);
    }

    fn read(&mut self, folder: &Path, origin: DocumentOrigin, within: Option<&Path>) {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.fault(folder, error.to_string()),
            Ok(entries) => entries,
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
        files.sort();
        for path in files.iter().take(MOST_PROFILES) {
            if let Err(reason) = self.read_file(path, origin, within) {
                self.fault(path, reason);
            }
        }
        let left_out = files.get(MOST_PROFILES..).unwrap_or_default();
        if let [first, more @ ..] = left_out {
            let reason = format!(
                "this profile and {} after it are left out: {MOST_PROFILES} is the most of one \
                 folder",
                more.len()
            );
            left_out.iter().for_each(|path| self.claim(path, "", &reason));
            self.fault(first, reason);
        }
    }

    fn read_file(
        &mut self,
        path: &Path,
        origin: DocumentOrigin,
        within: Option<&Path>,
    ) -> Result<(), String> {
        let text = exact_text(path, DOCUMENT_BYTES, within).map_err(|error| error.to_string());
        let text = text.inspect_err(|reason| {
            // The name of one that is not UTF-8 can be read all the same.
            let known = read_text(path, DOCUMENT_BYTES, within).ok().flatten();
            self.claim(path, &known.unwrap_or_default(), reason);
        })?;
        let text = text.ok_or("it is not there any more")?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.ok_or("its name is not UTF-8")?;
        let is_foreign = path.parent().is_some_and(|folder| folder.ends_with(FOREIGN_FOLDER));
        let parse = match is_foreign && origin == DocumentOrigin::Project {
            true => ProfileDocument::parse_foreign,
            false => ProfileDocument::parse,
        };
        let document = parse(stem, &text, origin, self.aliases);
        let document = document.map_err(|error| error.to_string());
        let document = document.inspect_err(|reason| self.claim(path, &text, reason))?;
        let name = &document.profile.name;
        if let Some(other) = self.profiles.get(name) {
            return Err(format!(
                "there is a {} profile `{name}` already, which is used: rename one of them",
                other.origin.as_str(),
            ));
        }
        if let Some(DocumentFault { path, .. }) = self.faulty.get(name) {
            let path = path.display();
            return Err(format!(
                "`{path}` is the profile `{name}` and is faulty: correct it, or rename one of them"
            ));
        }
        self.add(ProfileDocument { path: Some(path.to_owned()), ..document });
        Ok(())
    }

    fn fault(&mut self, path: &Path, reason: String) {
        self.faults.push(DocumentFault { path: path.to_owned(), reason });
    }

    /// Keeps the name of a faulty file from others: the one in its text, as far as that can be read,
    /// or else the file's own.
    fn claim(&mut self, path: &Path, text: &str, reason: &str) {
        let front = text.trim_start_matches("---").lines().take_while(|line| *line != "---");
        let mut names =
            front.filter_map(|line| line.strip_prefix("name:")?.split_whitespace().next());
        let own = names.next().map(|name| name.trim_matches(['"', '\'']));
        let own = own.filter(|name| check_name("profile", name).is_ok());
        let name = own.or_else(|| path.file_stem()?.to_str()).unwrap_or_default();
        if !self.has(name) {
            let fault = DocumentFault { path: path.to_owned(), reason: reason.to_owned() };
            self.faulty.insert(name.to_owned(), fault);
        }
    }
}

#[cfg(test)]
mod tests;
