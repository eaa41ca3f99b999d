//! Offsets of objects on a render node.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::Storage;

/// Each object has a range of 1 TiB.
const SHIFT: u32 = 40;
/// Number of objects: an offset is a positive 64-bit number.
const LIMIT: u32 = 1 << 22;

/// The objects of a process by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    objects: BTreeMap<u32, Weak<Storage>>,
    last: u32,
}

/// The offset of an object's first byte.
pub(super) fn offset(name: u32) -> u64 {
    u64::from(name) << SHIFT
}

impl Names {
    /// Assigns a number to an object. Numbers are not reused soon.
    pub(super) fn insert(&mut self, object: Weak<Storage>) -> u32 {
        loop {
            self.last = (self.last + 1) % LIMIT;
            if self.last != 0 && !self.objects.contains_key(&self.last) {
                self.objects.insert(self.last, object);
                return self.last;
            }
        }
    }

    pub(super) fn remove(&mut self, name: u32) {
        self.objects.remove(&name);
    }

    /// The object at an offset, and the offset within it.
    pub(super) fn find(&self, offset: u64) -> Option<(Arc<Storage>, u64)> {
        let name = u32::try_from(offset >> SHIFT).ok()?;
        let object = self.objects.get(&name)?.upgrade()?;
        Some((object, offset & ((1 << SHIFT) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::*;

    #[test]
    fn objects_are_found_by_their_offsets_while_they_live() {
        let pool = Arc::new(Pool::new().unwrap());
        let objects: Vec<_> = (0..3).map(|_| Storage::new(&pool, 8192, None).unwrap()).collect();
        for object in &objects {
            let (found, within) = pool.names().find(object.mmap_offset() + 4096).unwrap();
            assert!(Arc::ptr_eq(&found, object) && within == 4096);
        }
        let offset = objects[1].mmap_offset();
        drop(objects);
        assert!(pool.names().find(offset).is_none());
        assert!(self::offset(LIMIT - 1) < 1 << 63);
    }
}
