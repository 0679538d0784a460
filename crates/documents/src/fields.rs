//! The fields of a front matter, by their types.

use serde_json::{Map, Value};

use crate::document_error::DocumentError;

/// The fields of a front matter. A field that is null or an empty text counts as absent.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'d>(&'d Map<String, Value>);

impl<'d> Fields<'d> {
    pub(crate) const fn new(map: &'d Map<String, Value>) -> Self {
        Self(map)
    }

    /// Returns the names of all fields, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &'d str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the value of a field; `None` if it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'d Value> {
        let is_empty = |value: &&Value| match value {
            Value::Null => true,
            Value::String(text) => text.trim().is_empty(),
            _ => false,
        };
        self.0.get(name).filter(|value| !is_empty(value))
    }

    /// Returns a text.
    ///
    /// # Errors
    /// If it is a list or a mapping.
    pub fn text(&self, name: &str) -> Result<Option<String>, DocumentError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            // A name such as `1` or `true` is a text to whoever wrote it.
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(_) => Err(wrong_type(name, "a text")),
        }
    }

    /// Returns a list of words: a YAML list, or a text with commas or spaces between them.
    ///
    /// # Errors
    /// If it is neither.
    pub fn words(&self, name: &str) -> Result<Option<Vec<String>>, DocumentError> {
        let split = |text: &str, at: &[char]| {
            let words = text.split(at).map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.contains(',') => Ok(Some(split(text, &[',']))),
            Some(Value::String(text)) => Ok(Some(split(text, &[' ', '\n', '\t']))),
            Some(Value::Array(items)) => {
                let word = |item: &Value| item.as_str().map(|word| word.trim().to_owned());
                let words = items.iter().map(word).collect::<Option<Vec<_>>>();
                words.map(Some).ok_or_else(|| wrong_type(name, "a list of words"))
            }
            Some(_) => Err(wrong_type(name, "a list of words")),
        }
    }

    /// Returns a whole number from 1.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn count(&self, name: &str) -> Result<Option<u32>, DocumentError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| *number > 0) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_type(name, "a whole number from 1")),
        }
    }

    /// Returns whether a field is `true`.
    ///
    /// # Errors
    /// If it is neither `true` nor `false`.
    pub fn flag(&self, name: &str) -> Result<bool, DocumentError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong_type(name, "`true` or `false`")),
        }
    }
}

fn wrong_type(name: &str, expected: &str) -> DocumentError {
    DocumentError::whole(format!("`{name}` must be {expected}"))
}

#[cfg(test)]
mod tests {
    use crate::Document;

    #[test]
    fn values_are_read_by_their_types() {
        let text = "---\na: [x, y z]\nb: x, y z\nc: x y\nd: 3\ne: true\nf: ''\ng: {h: 1}\n---\n";
        let document = Document::parse(text).unwrap();
        let fields = document.fields();
        let words = |name| fields.words(name).unwrap().unwrap();
        assert_eq!((words("a"), words("b")), (words("b"), vec!["x".into(), "y z".into()]));
        assert_eq!(words("c"), ["x", "y"]);
        assert_eq!(fields.count("d"), Ok(Some(3)));
        assert_eq!(fields.text("d").unwrap().unwrap(), "3");
        assert_eq!((fields.flag("e"), fields.flag("f")), (Ok(true), Ok(false)));
        assert_eq!(fields.text("f"), Ok(None));
        assert_eq!(fields.text("g").unwrap_err().to_string(), "`g` must be a text");
        assert_eq!(fields.count("e").unwrap_err().message, "`e` must be a whole number from 1");
        assert_eq!(fields.words("g").unwrap_err().message, "`g` must be a list of words");
        assert_eq!(fields.flag("d").unwrap_err().message, "`d` must be `true` or `false`");
    }
}
