//! Drives the loop of Deputize: steps, tool calls, retries, cancellation, children, the bus
//! and the session file. Depend on it to run agents inside a program of your own.
//!
//! An agent with a scripted model, in a session that is kept in a folder:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use deputize_core::{Authority, BoxFuture, Cancel, Catalog, Delta, Grant, Model, ModelError};
//! use deputize_core::{Reply, Request, SessionId};
//! use deputize_runtime::{Parts, Session, SessionDir, top_agent};
//!
//! struct Parrot;
//! impl Model for Parrot {
//!     fn reply<'a>(
//!         &'a self,
//!         request: &'a Request<'a>,
//!         _live: &'a mut (dyn FnMut(Delta<'_>) + Send),
//!         _cancel: &'a Cancel,
//!     ) -> BoxFuture<'a, Result<Reply, ModelError>> {
//!         Box::pin(async { Ok(Reply::text(request.model, "Good day.")) })
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let mut parts = Parts::new(Catalog::default());
//! parts.models.insert("zoo/parrot", "parrot", Arc::new(Parrot));
//! let session = Session::create(&SessionDir::new(folder), SessionId::literal("s1"), parts)?;
//! let spec = top_agent(session.id(), "zoo/parrot", "Say good day.", folder);
//! let authority = Authority::root(session.catalog(), &Grant::default());
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let outcome = runtime.block_on(session.run(spec, authority, &Cancel::new()));
//! assert_eq!(outcome.text.as_deref(), Some("Good day."));
//! # Ok(())
//! # }
//! ```

mod ask;
mod bus;
mod call;
mod clock;
mod driver;
mod live;
mod parts;
pub mod prompt;
mod resume;
mod session;
mod spawn;
mod store;
mod tree;
mod validate;

pub use clock::SystemClock;
pub use parts::{Models, Parts, SyncMode};
pub use resume::{Continue, Recovery, ResumeError, UnknownCall};
pub use session::{Session, SessionError, declare, top_agent};
pub use store::{Damage, Header, ReadError, SessionDir, SessionFile, StoredSession, Tail};
