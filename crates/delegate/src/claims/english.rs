//! The words by which a claim is told from other sentences, each list with spaces between.

/// Verbs of which the file is the object, or the place of a part of it.
pub(super) const CHANGES: &str = "changed corrected edited extended fixed modified patched \
    refactored replaced rewrote rewritten updated";
/// Verbs of which the file is the object, or where it goes to.
pub(super) const MAKES: &str = "added appended created extracted generated implemented inserted \
    made produced saved stored written wrote";
/// Verbs of which the object is not written, but where it goes to is.
pub(super) const MOVES: &str = "copied moved put renamed";
/// Other verbs that begin a sentence without a subject, beside those that end in `ed`.
pub(super) const DID: &str = "built found got ran read took went";
/// What a label and `made` tell of as written.
pub(super) const FILES: &str = "change changes edits file files modifications";
/// The one who speaks.
pub(super) const SELF: &str = "i i've we we've";
/// Words between a subject and its verb that change nothing; `x` is in the box of a done task.
pub(super) const ADVERBS: &str = "additionally already also both briefly carefully correctly did \
    finally first had has have indeed just manually newly next now only properly simply \
    subsequently successfully then therefore thus x";
/// What joins the verbs of one subject, and names.
pub(super) const AND: &str = "& and but plus so";
/// Words behind which somebody else acts, or only perhaps.
pub(super) const OTHERS: &str = "after although assuming because before he how if once she suppose \
    that there unless until what when where whether which while who";
/// Those of them behind which not even the one who speaks did it.
pub(super) const PERHAPS: &str = "assuming if suppose unless until whether";
/// Subjects of which nobody knows what they are.
pub(super) const PRONOUNS: &str = "it they this";
/// Words that say that it was not, or is only to be.
pub(super) const NEGATIONS: &str = "aren't be can't cannot could couldn't didn't don't except \
    failed hadn't hasn't haven't isn't may might must needs neither never no none nor not nothing \
    should unable unchanged wasn't weren't will without won't would";
/// Words of a label that is about what is only to be.
pub(super) const PLANS: &str = "candidates expected future missing necessary needed planned \
    possible proposed recommended required suggested suggestions to todo";
/// Words of a label that is about somebody else's work.
pub(super) const FOREIGN: &str = "author changelog commit commits diff git history log logs \
    previous recent release says upstream version";
/// Words that tell of the past of a file, or of who wrote it.
pub(super) const HISTORY: &str = "ago before by commit earlier every last originally previously \
    release since upstream version when yesterday";
/// Words between `to` or `and`, and what is meant.
pub(super) const DETERMINERS: &str =
    "a all an both each file files its my new our some the their these this your";
/// What a file is the place of.
pub(super) const IN: &str = "at called in inside named titled under within";
/// What leads to a file.
pub(super) const TO: &str = "as into onto to";
/// What leads to something that is not written.
pub(super) const ABOUT: &str = "about after against based before between by for from like of on \
    over per than using via with";
/// Words whose `to` leads to something that is not written.
pub(super) const LINKS: &str = "call calls import link links path pointer reference references";
/// Verbs that have a name before them as their subject.
pub(super) const FINITE: &str = "are can contain contains did do does fail fails had has have is \
    lack lacks live lives need pass passes reads remains says seems still use uses was were";
/// Other words that end what a verb is about.
pub(super) const ENDS: &str = "down he here i instead looks see she sure they up we you";
