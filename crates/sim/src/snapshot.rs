//! Device state as data: saved to a small stream plus large blobs that are read back on demand.
//!
//! A device is restored *into* an object built from the same configuration, so only what changes
//! during a run is stored. Big tables ([`crate::CowVec`]) go to the blob stream and come back one
//! chunk at a time, which is what makes an aged 512 GiB drive start in milliseconds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use crate::units::{Bytes, Lba, Nanos};

/// Why a saved state cannot be restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// What is wrong with it.
    Damaged(String),
    /// It could not be read: then nothing is known to be wrong with it.
    Unread(String),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SnapshotError::Damaged(why) | SnapshotError::Unread(why)) = self;
        write!(f, "saved device state: {why}")
    }
}

impl std::error::Error for SnapshotError {}

/// Where the blobs of a saved state are read from.
pub trait BlobSource: Send + Sync + fmt::Debug {
    /// Fill `buffer` from byte `offset` of the blob stream.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()>;
}

impl BlobSource for Vec<u8> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let from = offset as usize;
        match self.get(from..from + buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

/// Receives a state.
pub struct Saver<'a> {
    small: Vec<u8>,
    blobs: &'a mut dyn Write,
    blob_bytes: u64,
    error: Option<std::io::Error>,
}

impl<'a> Saver<'a> {
    /// A saver whose blobs go to `blobs`.
    pub fn new(blobs: &'a mut dyn Write) -> Saver<'a> {
        Saver { small: Vec::new(), blobs, blob_bytes: 0, error: None }
    }

    /// The small stream, after everything was saved.
    ///
    /// # Errors
    /// The first error of the blob writer.
    pub fn finish(self) -> std::io::Result<Vec<u8>> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.small),
        }
    }

    /// Append bytes to the small stream.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
    }

    /// Where the next blob begins.
    pub fn blob_bytes(&self) -> u64 {
        self.blob_bytes
    }

    /// Append a blob and return its offset in the blob stream.
    pub fn blob(&mut self, bytes: &[u8]) -> u64 {
        let offset = self.blob_bytes;
        if self.error.is_none()
            && let Err(error) = self.blobs.write_all(bytes)
        {
            self.error = Some(error);
        }
        self.blob_bytes += bytes.len() as u64;
        offset
    }
}

/// Gives a state back.
pub struct Loader<'a> {
    small: &'a [u8],
    /// Where chunks are read from when they are first touched.
    pub source: Arc<dyn BlobSource>,
}

impl<'a> Loader<'a> {
    /// A loader over the small stream of [`Saver::finish`] and its blobs.
    pub fn new(small: &'a [u8], source: Arc<dyn BlobSource>) -> Loader<'a> {
        Loader { small, source }
    }

    /// Take `N` bytes of the small stream.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let Some((head, tail)) = self.small.split_first_chunk::<N>() else {
            return Err(SnapshotError::Damaged("it ends too early".into()));
        };
        self.small = tail;
        Ok(*head)
    }

    /// Check that everything was used.
    ///
    /// # Errors
    /// When bytes are left: the state belongs to another configuration.
    pub fn finish(self) -> Result<(), SnapshotError> {
        match self.small.len() {
            0 => Ok(()),
            left => Err(SnapshotError::Damaged(format!("{left} bytes are left over"))),
        }
    }
}

/// State that can be saved, and restored into an object of the same configuration.
pub trait Snapshot {
    /// Write everything that changes during a run.
    fn save(&self, to: &mut Saver);

    /// Read what [`Snapshot::save`] wrote.
    ///
    /// # Errors
    /// When the stored state is damaged or belongs to another configuration.
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError>;
}

/// Implement [`Snapshot`] for a struct by listing the fields that change during a run.
#[macro_export]
macro_rules! snapshot_fields {
    ($type:ty { $($field:tt),* $(,)? }) => {
        impl $crate::Snapshot for $type {
            fn save(&self, to: &mut $crate::Saver) {
                $( $crate::Snapshot::save(&self.$field, to); )*
                let _ = to;
            }
            fn restore(
                &mut self,
                from: &mut $crate::Loader,
            ) -> Result<(), $crate::SnapshotError> {
                $( $crate::Snapshot::restore(&mut self.$field, from)?; )*
                let _ = from;
                Ok(())
            }
        }
    };
}

/// Implement [`Snapshot`] for an enum without data by listing its variants. Their order is the
/// format. The enum is `Copy` and `PartialEq`.
#[macro_export]
macro_rules! snapshot_enum {
    ($type:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::Snapshot for $type {
            fn save(&self, to: &mut $crate::Saver) {
                let all = [$( $type::$variant ),+];
                let index = all.iter().position(|one| one == self);
                let index = index.expect("every variant is listed");
                $crate::Snapshot::save(&(index as u8), to);
            }
            fn restore(
                &mut self,
                from: &mut $crate::Loader,
            ) -> Result<(), $crate::SnapshotError> {
                let all = [$( $type::$variant ),+];
                let index = u8::from_le_bytes(from.take()?);
                *self = *all.get(usize::from(index)).ok_or_else(|| {
                    $crate::SnapshotError::Damaged(format!(
                        "{index} is no {}: expected less than {}", stringify!($type), all.len()
                    ))
                })?;
                Ok(())
            }
        }
    };
}

macro_rules! snapshot_integers {
    ($($type:ty),*) => { $(
        impl Snapshot for $type {
            fn save(&self, to: &mut Saver) {
                to.bytes(&self.to_le_bytes());
            }
            fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
                *self = <$type>::from_le_bytes(from.take()?);
                Ok(())
            }
        }
    )* };
}
snapshot_integers!(u8, u16, u32, u64, u128, i64, f64);

macro_rules! snapshot_newtypes {
    ($($type:ident),*) => { $(
        impl Snapshot for $type {
            fn save(&self, to: &mut Saver) {
                self.0.save(to);
            }
            fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
                self.0.restore(from)
            }
        }
    )* };
}
snapshot_newtypes!(Nanos, Bytes, Lba);

impl Snapshot for usize {
    fn save(&self, to: &mut Saver) {
        (*self as u64).save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut wide = 0u64;
        wide.restore(from)?;
        *self = wide as usize;
        Ok(())
    }
}

impl Snapshot for bool {
    fn save(&self, to: &mut Saver) {
        u8::from(*self).save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut byte = 0u8;
        byte.restore(from)?;
        *self = byte != 0;
        Ok(())
    }
}

impl<T: Snapshot + Default> Snapshot for Option<T> {
    fn save(&self, to: &mut Saver) {
        self.is_some().save(to);
        if let Some(value) = self {
            value.save(to);
        }
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut some = false;
        some.restore(from)?;
        *self = None;
        if some {
            self.insert(T::default()).restore(from)?;
        }
        Ok(())
    }
}

/// Lengths are bounded by what is left in the stream, so a damaged length cannot exhaust memory.
fn restore_length(from: &mut Loader) -> Result<usize, SnapshotError> {
    let mut length = 0u64;
    length.restore(from)?;
    if length > from.small.len() as u64 {
        return Err(SnapshotError::Damaged(format!("a list claims {length} entries")));
    }
    Ok(length as usize)
}

impl<T: Snapshot + Default> Snapshot for Vec<T> {
    fn save(&self, to: &mut Saver) {
        self.len().save(to);
        self.iter().for_each(|value| value.save(to));
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let length = restore_length(from)?;
        self.clear();
        self.reserve(length);
        for _ in 0..length {
            let mut value = T::default();
            value.restore(from)?;
            self.push(value);
        }
        Ok(())
    }
}

impl<T: Snapshot + Default> Snapshot for VecDeque<T> {
    fn save(&self, to: &mut Saver) {
        self.len().save(to);
        self.iter().for_each(|value| value.save(to));
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut list = Vec::new();
        list.restore(from)?;
        *self = list.into();
        Ok(())
    }
}

impl<K: Snapshot + Default + Ord, V: Snapshot + Default> Snapshot for BTreeMap<K, V> {
    fn save(&self, to: &mut Saver) {
        self.len().save(to);
        for (key, value) in self {
            key.save(to);
            value.save(to);
        }
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut list: Vec<(K, V)> = Vec::new();
        list.restore(from)?;
        *self = list.into_iter().collect();
        Ok(())
    }
}

impl<K: Snapshot + Default + Ord> Snapshot for BTreeSet<K> {
    fn save(&self, to: &mut Saver) {
        self.len().save(to);
        self.iter().for_each(|key| key.save(to));
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut list: Vec<K> = Vec::new();
        list.restore(from)?;
        *self = list.into_iter().collect();
        Ok(())
    }
}

impl<A: Snapshot, B: Snapshot, C: Snapshot> Snapshot for (A, B, C) {
    fn save(&self, to: &mut Saver) {
        self.0.save(to);
        self.1.save(to);
        self.2.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.0.restore(from)?;
        self.1.restore(from)?;
        self.2.restore(from)
    }
}

impl<A: Snapshot, B: Snapshot> Snapshot for (A, B) {
    fn save(&self, to: &mut Saver) {
        self.0.save(to);
        self.1.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.0.restore(from)?;
        self.1.restore(from)
    }
}

impl<T: Snapshot, const N: usize> Snapshot for [T; N] {
    fn save(&self, to: &mut Saver) {
        self.iter().for_each(|value| value.save(to));
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.iter_mut().try_for_each(|value| value.restore(from))
    }
}

impl<T: Snapshot + ?Sized> Snapshot for Box<T> {
    fn save(&self, to: &mut Saver) {
        (**self).save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        (**self).restore(from)
    }
}

/// A part that the configuration has or has not. Unlike an `Option`, which comes and goes during a
/// run, it is restored in place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Part<T>(pub Option<T>);

impl<T: Snapshot> Snapshot for Part<T> {
    fn save(&self, to: &mut Saver) {
        self.0.is_some().save(to);
        if let Some(part) = &self.0 {
            part.save(to);
        }
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut some = false;
        some.restore(from)?;
        match (&mut self.0, some) {
            (Some(part), true) => part.restore(from),
            (None, false) => Ok(()),
            _ => Err(SnapshotError::Damaged("it belongs to another configuration".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, PartialEq, Debug)]
    struct Sample {
        a: u32,
        list: Vec<(u64, bool)>,
        maybe: Option<Nanos>,
    }
    crate::snapshot_fields!(Sample { a, list, maybe });

    fn saved(sample: &Sample) -> Vec<u8> {
        let mut blobs = Vec::new();
        let mut saver = Saver::new(&mut blobs);
        sample.save(&mut saver);
        saver.finish().unwrap()
    }

    #[test]
    fn round_trip() {
        let sample = Sample { a: 7, list: vec![(1, true), (2, false)], maybe: Some(Nanos(9)) };
        let bytes = saved(&sample);
        let mut loader = Loader::new(&bytes, Arc::new(Vec::new()));
        let mut back = Sample::default();
        back.restore(&mut loader).unwrap();
        loader.finish().unwrap();
        assert_eq!(back, sample);
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        let bytes = saved(&Sample { list: vec![(1, true)], ..Sample::default() });
        for cut in 0..bytes.len() {
            let mut loader = Loader::new(&bytes[..cut], Arc::new(Vec::new()));
            assert!(Sample::default().restore(&mut loader).is_err(), "cut at {cut}");
        }
        let mut huge = bytes.clone();
        huge[4..12].fill(0xff);
        let mut loader = Loader::new(&huge, Arc::new(Vec::new()));
        assert!(Sample::default().restore(&mut loader).is_err());
    }
}
