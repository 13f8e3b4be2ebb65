//! A long list in pages, which grows and shrinks without being moved.

use std::ops::{Index, IndexMut};

/// Entries of a page.
const PAGE: usize = 1_024;

/// A list whose last page alone has room left.
#[derive(Debug)]
pub(super) struct Pages<T>(Vec<Vec<T>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pages<T> {
    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PAGE + last.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(super) fn push(&mut self, value: T) {
        match self.0.last_mut().filter(|last| last.len() < PAGE) {
            Some(last) => last.push(value),
            None => self.0.push(vec![value]),
        }
    }

    /// Removes the entry at `at`; the last one takes its place.
    pub(super) fn swap_remove(&mut self, at: usize) {
        let Some(page) = self.0.last_mut() else { return };
        let last = page.pop();
        if page.is_empty() {
            self.0.pop();
        }
        if let Some(last) = last
            && at < self.len()
        {
            self[at] = last;
        }
    }

    /// For how many entries there is room.
    pub(super) fn capacity(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }
}

impl<T> Index<usize> for Pages<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at / PAGE][at % PAGE]
    }
}

impl<T> IndexMut<usize> for Pages<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.0[at / PAGE][at % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages};

    #[test]
    fn a_list_in_pages_is_a_list() {
        let mut pages = Pages::default();
        let mut list = Vec::new();
        for value in 0..3 * PAGE + 7 {
            pages.push(value);
            list.push(value);
        }
        assert_eq!(pages.len(), list.len());
        for turn in 0..list.len() {
            let at = turn * 7_919 % list.len();
            pages.swap_remove(at);
            list.swap_remove(at);
            assert_eq!(pages.len(), list.len());
            assert!(list.get(at).is_none_or(|value| pages[at] == *value));
            if turn % 500 == 0 {
                assert!(pages.iter().eq(&list));
            }
        }
        assert_eq!((pages.len(), pages.capacity()), (0, 0));
    }
}
