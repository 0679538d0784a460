//! The rights of children.

use std::sync::Arc;

use deputize_core::Authority;
use deputize_core::agent::AttachError;
use deputize_core::authority::Grant;
use parking_lot::Mutex;

/// The rights of children. The tasks of a call mostly ask for the same: then their children
/// share them.
#[derive(Default)]
pub(crate) struct ChildAuthorities(Mutex<Option<ChildAuthority>>);

/// The rights of the last child, and what they follow from.
struct ChildAuthority {
    parent: Arc<Authority>,
    grant: Grant,
    authority: Arc<Authority>,
}

impl ChildAuthorities {
    /// Returns the rights of a child: its request, within its parent's rights and the bound for all
    /// children of the session, and one level less.
    pub(crate) fn of(
        &self,
        parent: &Arc<Authority>,
        grant: &Grant,
        bound: &Grant,
    ) -> Result<Arc<Authority>, AttachError> {
        let levels = parent.spawn_depth().checked_sub(1);
        let below =
            Grant { spawn_depth: Some(levels.ok_or(AttachError::Depth)?), ..Grant::default() };
        let mut last = self.0.lock();
        let same = last.as_ref().filter(|it| Arc::ptr_eq(&it.parent, parent) && it.grant == *grant);
        if let Some(same) = same {
            return Ok(Arc::clone(&same.authority));
        }
        let authority = Arc::new(parent.intersect(grant).intersect(bound).intersect(&below));
        let (parent, grant) = (Arc::clone(parent), grant.clone());
        *last = Some(ChildAuthority { parent, grant, authority: Arc::clone(&authority) });
        Ok(authority)
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::Catalog;

    use super::*;

    #[test]
    fn children_that_ask_for_the_same_share_their_rights_and_others_do_not() {
        let grant = |depth| Grant { spawn_depth: Some(depth), ..Grant::default() };
        let root = |depth| Arc::new(Authority::root(&Catalog::default(), &grant(depth)));
        let all = Grant::default();
        let children = ChildAuthorities::default();
        let top = root(3);
        let of = |parent: &Arc<Authority>, asked: &Grant| children.of(parent, asked, &all).unwrap();
        let first = of(&top, &all);
        assert!(Arc::ptr_eq(&first, &of(&top, &all)));
        let less = of(&top, &grant(1));
        assert_eq!((first.spawn_depth(), less.spawn_depth()), (2, 1));
        assert_eq!(of(&root(2), &grant(1)).spawn_depth(), 1);
        assert_eq!(of(&root(1), &grant(1)).spawn_depth(), 0);
        assert!(matches!(children.of(&root(0), &all, &all), Err(AttachError::Depth)));
    }
}
