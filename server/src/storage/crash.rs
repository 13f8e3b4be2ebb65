//! A disk in memory whose power can be cut after every step, and whose steps can fail.
//!
//! It keeps what a running process sees (live) apart from what is certain to be there after a crash (durable). At a
//! crash, any subset of the directory changes since the last sync of the folder may have reached the disk, and any part
//! of what was written to a file and not synced.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Storage;

/// A handle on the disk; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CrashDisk(Arc<Mutex<State>>);

/// What a disk may hold after a crash.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

#[derive(Debug, Default)]
struct State {
    now: Disk,
    /// The disk after each step since the start.
    history: Vec<Disk>,
    /// Steps until one fails, if one shall.
    steps_until_failure: Option<usize>,
    refuses: Refuses,
}

/// What a disk refuses, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Refuses {
    #[default]
    Nothing,
    /// To rename or remove this file: it is a mount of its own.
    NameOf(&'static str),
    /// To create, rename or remove a file.
    Names,
    /// To change anything.
    Changes,
}

#[derive(Debug, Default, Clone)]
struct Disk {
    files: Vec<Content>,
    live: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    pending: Vec<Change>,
}

#[derive(Debug, Default, Clone)]
struct Content {
    synced: Vec<u8>,
    /// In their order.
    unsynced: Vec<Write>,
}

#[derive(Debug, Clone)]
enum Write {
    At(usize, Vec<u8>),
    Truncate(usize),
}

#[derive(Debug, Clone)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl CrashDisk {
    /// A disk on which everything of `image` is durable.
    pub(crate) fn with_image(image: &Image) -> Self {
        let disk = Self::default();
        for (path, bytes) in image {
            let mut state = disk.state();
            let file = state.now.files.len();
            state.now.files.push(Content { synced: bytes.clone(), unsynced: Vec::new() });
            state.now.live.insert(path.clone(), file);
            state.now.durable.insert(path.clone(), file);
        }
        disk
    }

    /// The same disk, which refuses this from now on.
    pub(crate) fn refusing(self, refuses: Refuses) -> Self {
        self.state().refuses = refuses;
        self
    }

    /// Lets the step after `steps` further ones fail, once.
    pub(crate) fn fail_after(&self, steps: usize) {
        self.state().steps_until_failure = Some(steps);
    }

    /// Whether the failure asked for is still to come.
    pub(crate) fn is_failure_pending(&self) -> bool {
        self.state().steps_until_failure.is_some()
    }

    /// Steps done so far.
    pub(crate) fn steps(&self) -> usize {
        self.state().history.len()
    }

    /// What a process sees now.
    pub(crate) fn live_image(&self) -> Image {
        let state = self.state();
        state.now.live.iter().map(|(path, &file)| (path.clone(), state.now.files[file].live())).collect()
    }

    /// Everything that may be on the disk when the power is cut after `steps` steps.
    pub(crate) fn crash_images(&self, steps: usize) -> Vec<Image> {
        let state = self.state();
        let Some(last) = steps.checked_sub(1) else { return vec![Image::new()] };
        let disk = &state.history[last];
        let mut images = Vec::new();
        for subset in 0..1_u32 << disk.pending.len() {
            images.extend(Written::ALL.map(|written| disk.crash_image(subset, written)));
        }
        images
    }

    fn write_unsynced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(|disk| {
            if disk.live.contains_key(path) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            disk.files.push(Content { synced: Vec::new(), unsynced: vec![Write::At(0, bytes.to_vec())] });
            disk.change(Change::Create(path.to_owned(), disk.files.len() - 1));
            Ok(())
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn step<T>(&self, run: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state();
        match &mut state.steps_until_failure {
            Some(0) => {
                state.steps_until_failure = None;
                return Err(io::Error::other("the disk failed"));
            }
            Some(steps) => *steps -= 1,
            None => {}
        }
        let result = run(&mut state.now)?;
        let after = state.now.clone();
        state.history.push(after);
        Ok(result)
    }
}

/// How much of each write to a file has reached the disk.
#[derive(Clone, Copy)]
enum Written {
    /// Nothing of it.
    Nothing,
    /// The length of the file, but not what is in it.
    Length,
    /// So many eighths from the start.
    Start(usize),
    /// So many eighths at the end, and the length.
    End(usize),
    /// All of it.
    All,
}

impl Written {
    const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Length,
        Self::Start(1),
        Self::Start(4),
        Self::Start(7),
        Self::End(1),
        Self::End(4),
        Self::End(7),
        Self::All,
    ];

    fn apply(self, write: &Write, bytes: &mut Vec<u8>) {
        match write {
            Write::Truncate(length) if matches!(self, Self::All) => bytes.truncate(*length),
            Write::Truncate(_) => {}
            Write::At(offset, written) => {
                let eighths = |n: usize| written.len() * n / 8;
                let (part, length) = match self {
                    Self::Nothing => return,
                    Self::Length => (0..0, written.len()),
                    Self::Start(n) => (0..eighths(n), eighths(n)),
                    Self::End(n) => (eighths(8 - n)..written.len(), written.len()),
                    Self::All => (0..written.len(), written.len()),
                };
                bytes.resize(bytes.len().max(offset + length), 0);
                bytes[offset + part.start..offset + part.end].copy_from_slice(&written[part]);
            }
        }
    }
}

impl Content {
    fn live(&self) -> Vec<u8> {
        self.after(Written::All)
    }

    fn after(&self, written: Written) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        self.unsynced.iter().for_each(|write| written.apply(write, &mut bytes));
        bytes
    }

    fn sync(&mut self) {
        self.synced = self.live();
        self.unsynced.clear();
    }
}

impl Disk {
    fn crash_image(&self, subset: u32, written: Written) -> Image {
        let mut names = self.durable.clone();
        for (at, change) in self.pending.iter().enumerate() {
            if subset & (1 << at) != 0 {
                apply(change, &mut names);
            }
        }
        names.into_iter().map(|(path, file)| (path, self.files[file].after(written))).collect()
    }

    fn change(&mut self, change: Change) {
        apply(&change, &mut self.live);
        self.pending.push(change);
    }
}

fn apply(change: &Change, names: &mut BTreeMap<PathBuf, usize>) {
    match change {
        Change::Create(path, file) => {
            names.insert(path.clone(), *file);
        }
        Change::Rename(from, to, file) => {
            names.remove(from);
            names.insert(to.clone(), *file);
        }
        Change::Remove(path) => {
            names.remove(path);
        }
    }
}

impl CrashDisk {
    fn refuse_name(&self, path: &Path) -> io::Result<()> {
        let state = self.state();
        match state.refuses {
            Refuses::Names => Err(ErrorKind::PermissionDenied.into()),
            Refuses::NameOf(mount) if path == Path::new(mount) && state.now.live.contains_key(path) => {
                Err(ErrorKind::ResourceBusy.into())
            }
            _ => self.refuse_change(&state),
        }
    }

    fn refuse_change(&self, state: &State) -> io::Result<()> {
        if state.refuses == Refuses::Changes { Err(ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn write_to(&self, path: &Path, write: Write) -> io::Result<()> {
        self.refuse_change(&self.state())?;
        let find = |disk: &Disk| disk.live.get(path).copied().ok_or(ErrorKind::NotFound);
        self.step(|disk| {
            let file = find(disk)?;
            disk.files[file].unsynced.push(write);
            Ok(())
        })?;
        self.step(|disk| {
            let file = find(disk)?;
            disk.files[file].sync();
            Ok(())
        })
    }
}

impl Storage for CrashDisk {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn read_raw(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.step(|disk| Ok(disk.live.get(path).map(|&file| disk.files[file].live())))
    }

    fn check_writable(&self, _path: &Path) -> io::Result<()> {
        self.refuse_change(&self.state())
    }

    fn write_synced(&self, path: &Path, bytes: &[u8], _like: &Path) -> io::Result<()> {
        self.refuse_name(path)?;
        self.write_unsynced(path, bytes)?;
        self.step(|disk| {
            let file = disk.live[path];
            disk.files[file].sync();
            Ok(())
        })
    }

    fn write_at_synced(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_to(path, Write::At(usize::try_from(offset).unwrap(), bytes.to_vec()))
    }

    fn truncate_synced(&self, path: &Path, length: u64) -> io::Result<()> {
        self.write_to(path, Write::Truncate(usize::try_from(length).unwrap()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.refuse_name(from).and_then(|()| self.refuse_name(to))?;
        self.step(|disk| {
            let file = *disk.live.get(from).ok_or(ErrorKind::NotFound)?;
            disk.change(Change::Rename(from.to_owned(), to.to_owned(), file));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.state().now.live.contains_key(path) {
            self.refuse_name(path)?;
        }
        self.step(|disk| {
            if disk.live.contains_key(path) {
                disk.change(Change::Remove(path.to_owned()));
            }
            Ok(())
        })
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.step(|disk| {
            disk.durable = disk.live.clone();
            disk.pending.clear();
            Ok(())
        })
    }

    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(disk: &CrashDisk, path: &Path) -> Vec<Option<Vec<u8>>> {
        disk.crash_images(disk.steps()).iter().map(|image| image.get(path).cloned()).collect()
    }

    /// The model would find a missing sync of the file, and a missing sync of the folder.
    #[test]
    fn the_model_bites() {
        let (path, temporary) = (Path::new("/d/f"), Path::new("/d/t"));
        let disk = CrashDisk::default();
        disk.write_unsynced(temporary, b"data").unwrap();
        disk.rename(temporary, path).unwrap();
        disk.sync_folder(Path::new("/d")).unwrap();
        assert!(contents(&disk, path).contains(&Some(Vec::new())));
        assert!(contents(&disk, path).contains(&Some(b"da".to_vec())));

        let disk = CrashDisk::default();
        disk.write_synced(temporary, b"data", path).unwrap();
        disk.rename(temporary, path).unwrap();
        assert!(contents(&disk, path).contains(&None));
        disk.sync_folder(Path::new("/d")).unwrap();
        assert!(contents(&disk, path).iter().all(|content| content.as_deref() == Some(b"data")));
    }
}
