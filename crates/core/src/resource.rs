//! Values that tools keep for an agent or a program.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::future::BoxFuture;

/// Something that lives as long as its owner and may need closing: a shell, a connection.
pub trait Resource: Any + Send + Sync {
    /// Closes it and leaves nothing behind.
    fn close<'a>(&'a self) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Values by type, which tools keep for an agent or a program for all agents.
#[derive(Default)]
pub struct ResourceMap(Mutex<Vec<StoredResource>>);

/// A value under its type. There are few of them, and each agent has some.
type StoredResource = (TypeId, Arc<dyn Resource>);

fn find<T: Resource>(values: &[StoredResource]) -> Option<&Arc<dyn Resource>> {
    values.iter().find(|(id, _)| *id == TypeId::of::<T>()).map(|(_, value)| value)
}

impl ResourceMap {
    /// Returns the value of a type, creating it on first use.
    pub fn get_or_insert_with<T: Resource>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock();
        if let Some(value) = find::<T>(&values) {
            let any: Arc<dyn Any + Send + Sync> = Arc::clone(value) as _;
            #[expect(clippy::expect_used, reason = "the key is the value's own type")]
            return any.downcast::<T>().expect("a value stored under its own type");
        }
        let value = Arc::new(make());
        values.push((TypeId::of::<T>(), Arc::clone(&value) as _));
        value
    }

    /// Inserts a value that other maps share. A value of this type that is already there stays.
    pub fn share<T: Resource>(&self, value: Arc<T>) {
        let mut values = self.0.lock();
        if find::<T>(&values).is_none() {
            values.push((TypeId::of::<T>(), value));
        }
    }

    /// Closes and removes all values.
    pub async fn close(&self) {
        let values = std::mem::take(&mut *self.0.lock());
        for (_, value) in values {
            value.close().await;
        }
    }
}

impl fmt::Debug for ResourceMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.0.lock();
        write!(f, "ResourceMap({} values)", values.len())
    }
}
