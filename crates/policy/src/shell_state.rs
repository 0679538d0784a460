//! What a shell knows while a text runs: variables, functions, directory.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::command_class::CommandContext;
use crate::field::HOLE;
use crate::limits::VALUE_BYTES_MAX;
use crate::paths::Place;
use crate::syntax::{Assignment, Command};

/// The state of a shell. A copy shares what neither changes.
#[derive(Debug, Clone)]
pub(crate) struct ShellState {
    variables: Rc<BTreeMap<String, Vec<String>>>,
    functions: Rc<BTreeMap<String, Rc<Command>>>,
    aliases: Rc<BTreeMap<String, String>>,
    /// `$1` and so on; `None` if they are unknown.
    pub(crate) positional: Option<Vec<String>>,
    /// `$0`
    pub(crate) name: String,
    /// The working directory, if known.
    pub(crate) directory: Option<String>,
    pub(crate) home: String,
}

impl ShellState {
    pub(crate) fn new(context: &CommandContext) -> Self {
        let home = context.home.as_ref().map_or("~".into(), |it| it.to_string_lossy().into_owned());
        let directory = context.directory.as_ref().map(|it| it.to_string_lossy().into_owned());
        let known = [
            ("HOME", home.as_str()),
            ("IFS", " \t\n"),
            ("SHELL", "/bin/bash"),
            ("BASH", "/bin/bash"),
            ("TMPDIR", "/tmp"),
        ];
        let known = known.map(|(name, value)| (name.to_owned(), vec![value.to_owned()]));
        Self {
            variables: Rc::new(BTreeMap::from(known)),
            functions: Rc::default(),
            aliases: Rc::default(),
            positional: Some(Vec::new()),
            name: "bash".to_owned(),
            directory,
            home,
        }
    }

    /// Returns where its commands run.
    pub(crate) fn place(&self) -> Place<'_> {
        Place { home: &self.home, directory: self.directory.as_deref() }
    }

    /// Returns how many names a copy may have to hold.
    pub(crate) fn size(&self) -> usize {
        self.variables.len() + self.functions.len() + self.aliases.len()
    }

    /// Returns whether a variable was assigned in the text, or has a value everywhere.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        match name.parse::<usize>() {
            Ok(number) => self.positional.as_ref().is_some_and(|it| it.len() >= number),
            Err(_) => self.variables.contains_key(name),
        }
    }

    /// Returns the values of a parameter; several for a whole array.
    pub(crate) fn values(&self, name: &str, index: Option<&str>) -> Vec<String> {
        let unknown = || vec![HOLE.to_string()];
        if let Ok(number) = name.parse::<usize>() {
            return match (&self.positional, number.checked_sub(1)) {
                (_, None) => vec![self.name.clone()],
                (Some(all), Some(at)) => vec![all.get(at).cloned().unwrap_or_default()],
                (None, _) => unknown(),
            };
        }
        match name {
            "@" | "*" => return self.positional.clone().unwrap_or_else(unknown),
            "#" => {
                let count = self.positional.as_ref().map(|it| it.len().to_string());
                return vec![count.unwrap_or_else(|| HOLE.to_string())];
            }
            // The job that was started last.
            "!" => return vec!["%%".to_owned()],
            "?" => return vec!["0".to_owned()],
            "PWD" => return vec![self.directory.clone().unwrap_or_else(|| HOLE.to_string())],
            _ => {}
        }
        let Some(values) = self.variables.get(name) else { return unknown() };
        match index {
            Some("@" | "*") => values.clone(),
            Some(index) => match index.parse::<usize>() {
                Ok(at) => vec![values.get(at).cloned().unwrap_or_default()],
                Err(_) => unknown(),
            },
            None => vec![values.first().cloned().unwrap_or_default()],
        }
    }

    /// Returns the value of a variable that was assigned.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.first().map(String::as_str)
    }

    pub(crate) fn assign(&mut self, name: &str, values: Vec<String>) {
        let too_long = values.iter().map(String::len).sum::<usize>() > VALUE_BYTES_MAX;
        let values = if too_long { vec![HOLE.to_string()] } else { values };
        Rc::make_mut(&mut self.variables).insert(name.to_owned(), values);
    }

    /// Returns the values of the variables that are to be assigned.
    pub(crate) fn values_of(&self, assignments: &[Assignment]) -> Vec<(String, Vec<String>)> {
        let values = |it: &Assignment| (it.name.clone(), self.values(&it.name, Some("@")));
        assignments.iter().map(values).collect()
    }

    /// Assigns a text, or adds it to the value.
    pub(crate) fn assign_text(&mut self, assignment: &Assignment, text: String) {
        match (&assignment.index, assignment.appends) {
            (Some(index), _) => self.assign_at(&assignment.name, index, text),
            (None, true) => self.append(&assignment.name, vec![text], false),
            (None, false) => self.assign(&assignment.name, vec![text]),
        }
    }

    /// Assigns to one place of an array.
    fn assign_at(&mut self, name: &str, index: &str, value: String) {
        let mut values = self.variables.get(name).cloned().unwrap_or_default();
        match index.parse::<usize>() {
            Ok(at) if at < 1024 => {
                values.resize(values.len().max(at + 1), String::new());
                if let Some(place) = values.get_mut(at) {
                    *place = value;
                }
            }
            _ => values = vec![HOLE.to_string()],
        }
        self.assign(name, values);
    }

    pub(crate) fn append(&mut self, name: &str, more: Vec<String>, is_array: bool) {
        let mut values = self.values(name, Some("@"));
        match (is_array, more.first(), values.first_mut()) {
            (false, Some(text), Some(first)) => first.push_str(text),
            _ => values.extend(more),
        }
        self.assign(name, values);
    }

    pub(crate) fn unset(&mut self, name: &str) {
        if self.variables.contains_key(name) {
            Rc::make_mut(&mut self.variables).insert(name.to_owned(), vec![String::new()]);
        }
        if self.functions.contains_key(name) {
            Rc::make_mut(&mut self.functions).remove(name);
        }
    }

    pub(crate) fn function(&self, name: &str) -> Option<Rc<Command>> {
        self.functions.get(name).cloned()
    }

    pub(crate) fn define_function(&mut self, name: &str, body: Rc<Command>) {
        Rc::make_mut(&mut self.functions).insert(name.to_owned(), body);
    }

    /// Returns the text that an alias with arguments stands for.
    pub(crate) fn alias_text(&self, name: &str, arguments: &[String]) -> Option<String> {
        let text = self.aliases.get(name)?;
        let quoted = arguments.iter().map(|it| format!(" '{}'", it.replace('\'', r"'\''")));
        Some(text.to_owned() + &quoted.collect::<String>())
    }

    pub(crate) fn define_alias(&mut self, name: &str, text: &str) {
        Rc::make_mut(&mut self.aliases).insert(name.to_owned(), text.to_owned());
    }

    /// Takes over what holds whichever of two ways was gone; what differs is unknown.
    pub(crate) fn merge(&mut self, other: &Self) {
        if !Rc::ptr_eq(&self.variables, &other.variables) {
            let unknown = || vec![HOLE.to_string()];
            let mine = Rc::make_mut(&mut self.variables);
            for (name, values) in mine.iter_mut() {
                if other.variables.get(name) != Some(values) {
                    *values = unknown();
                }
            }
            for name in other.variables.keys() {
                mine.entry(name.clone()).or_insert_with(unknown);
            }
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            let mine = Rc::make_mut(&mut self.functions);
            mine.extend(other.functions.iter().map(|(name, body)| (name.clone(), Rc::clone(body))));
        }
        if self.directory != other.directory {
            self.directory = None;
        }
        if self.positional != other.positional {
            self.positional = None;
        }
    }

    /// Makes every variable unknown that another state has with another value.
    pub(crate) fn forget_changes(&mut self, before: &Self) {
        self.merge(before);
    }

    /// Changes the working directory; `None` means that it is unknown.
    pub(crate) fn change_directory(&mut self, to: Option<&str>) {
        self.directory = match to {
            Some(path) if path.starts_with('/') || path.starts_with('~') => Some(path.to_owned()),
            Some(path) if !path.contains(HOLE) => {
                self.directory.as_ref().map(|directory| format!("{directory}/{path}"))
            }
            _ => None,
        }
        .filter(|path| !path.contains(HOLE) && path.len() <= 4096);
    }
}
