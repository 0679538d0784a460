//! Looks through files side by side, and gives what was seen in the order in which they came.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};

use cap_std::fs::Dir;
use deputize_core::Cancel;
use deputize_documents::open_beneath;
use grep_regex::RegexMatcher;
use parking_lot::Mutex;

use crate::search::{
    CancellableFile, CountExtent, FileContent, MatchCounter, MatchDisplay, Search,
};

/// Files that a thread takes at once. With fewer in a tree, no thread is started.
const BATCH: usize = 64;
/// Limit on the threads of one search.
const MOST_THREADS: usize = 8;
/// Batches under way for each thread.
const BATCHES_AHEAD: usize = 4;

/// What was seen in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLook {
    /// So many lines match; where files are listed, 1 stands for any number.
    Counted(u64),
    /// Lines match that may have to be shown.
    Matches,
    /// It is binary, so that nothing of it counts.
    Binary,
    /// It cannot be read, or the search was cancelled.
    Unreadable,
}

/// What all threads of a search share.
#[derive(Debug)]
pub(crate) struct FileLooker<'a> {
    root: &'a Dir,
    matcher: RegexMatcher,
    show: MatchDisplay,
    cancel: &'a Cancel,
    /// Whether no more lines are shown, so that they need only be counted.
    counts_all: AtomicBool,
}

impl<'a> FileLooker<'a> {
    pub(crate) fn new(
        root: &'a Dir,
        search: &Search,
        show: MatchDisplay,
        cancel: &'a Cancel,
    ) -> Self {
        let counts_all = AtomicBool::new(show == MatchDisplay::Count);
        Self { root, matcher: search.matcher(), show, cancel, counts_all }
    }

    pub(crate) fn counter(&self) -> MatchCounter {
        MatchCounter::new(self.matcher.clone())
    }

    /// From now on lines are counted and not shown, if the page is full.
    pub(crate) fn count_all_if(&self, full: bool) {
        if full && self.show != MatchDisplay::Any {
            self.counts_all.store(true, Ordering::Relaxed);
        }
    }

    /// Looks through one file.
    pub(crate) fn look(&self, counter: &mut MatchCounter, rel: &Path) -> FileLook {
        let counts_all = self.counts_all.load(Ordering::Relaxed);
        let extent = if counts_all { CountExtent::All } else { CountExtent::First };
        let Some(file) = open_regular(self.root, rel) else { return FileLook::Unreadable };
        match counter.file(CancellableFile { file, cancel: self.cancel }, extent) {
            Err(_) => FileLook::Unreadable,
            Ok(FileContent::Binary) => FileLook::Binary,
            Ok(FileContent::Matches(0)) => FileLook::Counted(0),
            Ok(FileContent::Matches(_)) if !counts_all && self.show != MatchDisplay::Any => {
                FileLook::Matches
            }
            Ok(FileContent::Matches(matches)) => FileLook::Counted(matches),
        }
    }

    fn look_at_each(&self, counter: &mut MatchCounter, batch: Vec<PathBuf>) -> Batch {
        let look = |rel: PathBuf| {
            let look = self.look(counter, &rel);
            (rel, look)
        };
        batch.into_iter().map(look).collect()
    }
}

/// Opens a file that is a regular one.
pub(crate) fn open_regular(root: &Dir, rel: &Path) -> Option<File> {
    let file = open_beneath(root, rel).ok()?;
    file.metadata().is_ok_and(|meta| meta.is_file()).then(|| file.into_std())
}

/// Files, and what was seen in each.
type Batch = Vec<(PathBuf, FileLook)>;

/// Files to look through, and where what was seen in them goes.
type Order = (Vec<PathBuf>, Sender<Batch>);

/// The threads of one search. They end when this is dropped.
pub(crate) struct SearchThreads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    looker: &'scope FileLooker<'scope>,
    /// Files of a batch that is not whole.
    files: Vec<PathBuf>,
    /// Batches under way, in order.
    under_way: VecDeque<Receiver<Batch>>,
    most_under_way: usize,
    orders: Option<Sender<Order>>,
}

impl<'scope, 'env> SearchThreads<'scope, 'env> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        looker: &'scope FileLooker<'scope>,
    ) -> Self {
        let files = Vec::with_capacity(BATCH);
        let under_way = VecDeque::new();
        Self { scope, looker, files, under_way, most_under_way: 0, orders: None }
    }

    /// Adds a file. Returns earlier ones, in order, that were looked through.
    pub(crate) fn add(&mut self, rel: PathBuf) -> Batch {
        self.files.push(rel);
        if self.files.len() < BATCH {
            return Batch::new();
        }
        self.send();
        if self.under_way.len() < self.most_under_way { Batch::new() } else { self.next() }
    }

    /// All files that were not returned yet, batch by batch.
    pub(crate) fn rest(mut self) -> impl Iterator<Item = (PathBuf, FileLook)> {
        if self.orders.is_some() {
            self.send();
        }
        let (looker, files) = (self.looker, std::mem::take(&mut self.files));
        // Few files are looked through here, each when its turn comes.
        let mut counter = looker.counter();
        let here = files.into_iter().map(move |rel| {
            let look = looker.look(&mut counter, &rel);
            (rel, look)
        });
        let under_way = std::mem::take(&mut self.under_way);
        under_way.into_iter().flat_map(|batch| batch.recv().unwrap_or_default()).chain(here)
    }

    /// What was seen in the next batch.
    fn next(&mut self) -> Batch {
        // A thread that panicked sends nothing: the scope hands its panic on.
        self.under_way.pop_front().and_then(|batch| batch.recv().ok()).unwrap_or_default()
    }

    /// Gives the files so far to the threads, which are started for the first of them.
    fn send(&mut self) {
        let files = std::mem::take(&mut self.files);
        let (sender, seen) = channel();
        if self.orders.is_none() {
            self.start();
        }
        let order = (files, sender);
        let unsent = match &self.orders {
            Some(orders) => orders.send(order).err().map(|unsent| unsent.0),
            None => Some(order),
        };
        // Without any thread, this one does it.
        if let Some((files, sender)) = unsent {
            let _receiver_is_here =
                sender.send(self.looker.look_at_each(&mut self.looker.counter(), files));
        }
        self.under_way.push_back(seen);
    }

    fn start(&mut self) {
        let (sender, orders) = channel::<Order>();
        let orders = Arc::new(Mutex::new(orders));
        let wanted = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        let looker = self.looker;
        let started = (0..wanted).filter(|_| {
            let orders = Arc::clone(&orders);
            let work = move || work(looker, &orders);
            thread::Builder::new().name("search".to_owned()).spawn_scoped(self.scope, work).is_ok()
        });
        let started = started.count();
        self.most_under_way = started * BATCHES_AHEAD;
        self.orders = (started > 0).then_some(sender);
    }
}

/// Looks through batch after batch until no more come.
fn work(looker: &FileLooker<'_>, orders: &Mutex<Receiver<Order>>) {
    let mut counter = looker.counter();
    loop {
        let order = orders.lock().recv();
        let Ok((files, seen)) = order else { return };
        // Nobody waits for it once the search has ended.
        let _unwanted = seen.send(looker.look_at_each(&mut counter, files));
    }
}
