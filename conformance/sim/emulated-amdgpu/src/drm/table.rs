//! Handles: numbers of objects, from 1 on.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use crate::abi::Result;

#[derive(Debug)]
pub(super) struct Table<T> {
    objects: BTreeMap<u32, T>,
    /// Numbers below the highest one that are unused.
    free: BTreeSet<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), free: BTreeSet::new() }
    }
}

impl<T> Table<T> {
    /// Adds an object under the lowest free number.
    pub(super) fn insert(&mut self, object: T) -> Result<u32> {
        let next = || self.objects.last_key_value().map_or(Some(1), |(last, _)| last.checked_add(1));
        let handle = self.free.pop_first().or_else(next).ok_or(Errno::NOMEM)?;
        self.objects.insert(handle, object);
        Ok(handle)
    }

    pub(super) fn get(&self, handle: u32) -> Option<&T> {
        self.objects.get(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        self.objects.get_mut(&handle)
    }

    pub(super) fn remove(&mut self, handle: u32) -> Option<T> {
        let object = self.objects.remove(&handle)?;
        self.free.insert(handle);
        // The highest numbers are free without an entry.
        let last = self.objects.last_key_value().map_or(0, |(last, _)| *last);
        drop(self.free.split_off(&(last + 1)));
        Some(object)
    }

    /// The handle of the first object that matches.
    pub(super) fn find(&self, matches: impl Fn(&T) -> bool) -> Option<u32> {
        self.objects.iter().find(|(_, object)| matches(object)).map(|(handle, _)| *handle)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_used() {
        let mut table = Table::default();
        let handles: Vec<_> = "abcd".chars().map(|name| table.insert(name).unwrap()).collect();
        assert_eq!(handles, [1, 2, 3, 4]);
        assert_eq!((table.remove(2), table.remove(4), table.remove(3)), (Some('b'), Some('d'), Some('c')));
        assert_eq!((table.remove(4), table.len(), table.find(|name| *name == 'a')), (None, 1, Some(1)));
        assert_eq!((table.insert('e'), table.insert('f'), table.remove(1)), (Ok(2), Ok(3), Some('a')));
        assert_eq!((table.insert('g'), table.insert('h'), table.get(1)), (Ok(1), Ok(4), Some(&'g')));
    }
}
