//! Where cards are kept: a file a server, in a folder of the program's state.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::names::toolset;
use crate::pin::Card;

/// The most bytes of a card's file: what a server with all its tools may say, twice.
const CARD_BYTES: u64 = 128 * 1024 * 1024;

/// The folder of cards.
#[derive(Debug, Clone)]
pub struct Cards {
    dir: PathBuf,
}

/// A card that cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// Not read.
    #[error("cannot read `{}`, which says what was approved of an MCP server", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Read, and no card.
    #[error("`{}` is not what this program keeps of an MCP server; delete it to begin anew, and review the server", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Not kept.
    #[error("cannot write `{}`, which says what was approved of an MCP server", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A server with this name has none.
    #[error("`{0}` cannot be the name of an MCP server")]
    Name(String),
}

impl Cards {
    /// The cards in a folder, which need not be there yet.
    #[must_use]
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The file of a server's card.
    ///
    /// # Errors
    /// When the name is none of a server: it must not lead out of the folder.
    pub fn file(&self, server: &str) -> Result<PathBuf, CardError> {
        match toolset(server) {
            Some(_) => Ok(self.dir.join(format!("{server}.json"))),
            None => Err(CardError::Name(server.to_owned())),
        }
    }

    /// The directory that a server is started in where nobody says another one.
    ///
    /// # Errors
    /// When the name is none of a server.
    pub fn start_in(&self, server: &str) -> Result<PathBuf, CardError> {
        self.file(server)?;
        Ok(self.dir.join("started-in").join(server))
    }

    /// The card of a server, empty where there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn read(&self, server: &str) -> Result<Card, CardError> {
        let path = self.file(server)?;
        let text = match read_bounded(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Card::default()),
            Err(source) => return Err(CardError::Read { path, source }),
        };
        serde_json::from_slice(&text).map_err(|source| CardError::Form { path, source })
    }

    /// Keeps the card of a server, for its owner's eyes; the file is replaced whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, server: &str, card: &Card) -> Result<(), CardError> {
        let path = self.file(server)?;
        let wrong = |source| CardError::Write { path: path.clone(), source };
        fs::create_dir_all(&self.dir).map_err(wrong)?;
        let text = serde_json::to_vec_pretty(card).map_err(io::Error::from).map_err(wrong)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.dir).map_err(wrong)?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(wrong)?;
        file.persist(&path).map(drop).map_err(|error| wrong(error.error))
    }

    /// The servers that there are cards of, by name.
    ///
    /// # Errors
    /// When the folder is there and cannot be read.
    pub fn names(&self) -> Result<Vec<String>, CardError> {
        let wrong = |source| CardError::Read { path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(wrong(source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry.map_err(wrong)?.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(".json"));
            names.extend(name.filter(|name| toolset(name).is_some()).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// Forgets a server. Whether there was anything to forget.
    ///
    /// # Errors
    /// When its file cannot be deleted.
    pub fn remove(&self, server: &str) -> Result<bool, CardError> {
        let path = self.file(server)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(CardError::Write { path, source }),
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut text = Vec::new();
    fs::File::open(path)?.take(CARD_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::Listed;
    use crate::server::Start;

    #[test]
    fn a_card_is_kept_for_its_owner_and_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let cards = Cards::new(dir.path().join("mcp"));
        assert_eq!(cards.read("a").unwrap(), Card::default());
        assert_eq!(cards.names().unwrap(), Vec::<String>::new());
        let mut card = Card::default();
        let start = Start { place: "/bin/s".into(), ..Start::default() };
        card.keep(&start, Listed::default());
        cards.write("a", &card).unwrap();
        assert_eq!(cards.read("a").unwrap(), card);
        assert_eq!(cards.names().unwrap(), ["a"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(cards.file("a").unwrap()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(cards.remove("a").unwrap() && !cards.remove("a").unwrap());
    }

    #[test]
    fn a_broken_card_is_no_approval_and_a_name_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let cards = Cards::new(dir.path().to_owned());
        fs::write(dir.path().join("a.json"), "{").unwrap();
        assert!(matches!(cards.read("a"), Err(CardError::Form { .. })));
        assert!(matches!(cards.read("../a"), Err(CardError::Name(_))));
    }
}
