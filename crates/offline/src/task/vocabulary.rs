//! The words of the grammar of tasks. `|` stands between alternatives.

pub(super) const DETERMINERS: &str = "all|the|this|my|our|your|its|whole|entire|current";
/// Words for the working directory.
pub(super) const HERE: &str = "repository|repo|project|codebase|code|sources|directory|folder|dir|\
                               package|crate|module|workspace|library|application|app|program";
/// Words beside which the name of a directory stands.
pub(super) const FOLDER: &str = "directory|folder|dir|crate|package|module";
pub(super) const IN: &str = "in|under|of|inside|within|below|from|at";
/// The same without those that may belong to what is looked for.
pub(super) const SEARCHED_IN: &str = "in|under|inside|within|below";
pub(super) const SURVEY: &str = "survey|review|explore|describe|summarize|summarise|analyze|\
                                 analyse|inspect|examine|explain|study|scan|understand";
pub(super) const SEARCH: &str = "find|grep|locate|count";
pub(super) const READ: &str = "read|show|open|print|cat|display";
pub(super) const TESTS: &str = "cases|case|functions|files|suites|suite|code";
/// Kinds of names, which say what is looked for beside its name.
pub(super) const KINDS: &str = "function|method|struct|class|enum|trait|interface|type|macro|\
                                module|constant|variable|test|field";
pub(super) const QUANTIFIERS: &str = "all|the|any|every|each";
/// Words for things that no search for text finds.
pub(super) const CATEGORIES: &str = "lines|words|characters|bytes|calls|usages|references|occurrences|comments|strings|\
     imports|definitions|names|variables|constants|macros|packages|crates|folders|directories|\
     examples|commits|authors|tests|files|functions|methods|classes|structs|enums|traits|\
     types|modules|bugs|bug|errors|issues|problems|risks|risk|vulnerabilities|smells|weaknesses|\
     duplicates|dependencies|secrets";
/// Words that stand for something said elsewhere.
pub(super) const PRONOUNS: &str = "it|them|everything|anything|something|nothing|this|that|here";
/// Words that exclude something. Without quotes they are neither names nor paths: a negation that
/// no rule understands refuses the task.
pub(super) const NEGATIONS: &str = "not|no|never|none|nor|neither|without|except|excepting|\
                                    excluding|exclude|excludes|outside|unless|but|ignore|ignoring|skip|\
                                    skipping|omit|omitting|minus|don't|don’t|dont|doesn't|doesn’t|cannot|\
                                    can't|can’t|avoid|avoiding|instead";
pub(super) const QUESTIONS: &str = "who|whose|what|where|why|how|when|which";
/// Words that are no names of directories unless they stand in quotes.
pub(super) const NO_PATHS: &str = "a|an|and|or|then|also|in|of|to|for|with|is|are|it|that|here|there|please|thanks|thank|\
     yourself|alone|too|now|everything|anything|me|you|us|who|what|where|why|how|when|\
     which|tests|files|delegate|detail|briefly|quickly|carefully|do|does|about|structured|\
     organised|organized|laid|built|work|works";
