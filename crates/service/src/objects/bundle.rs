//! Results bundles: zip archives that are never written.
//!
//! A bundle is laid out once, when its task ends: the bytes of its headers, and between them the
//! objects that they describe. Trajectories are stored as they are; text is deflated into an
//! object of its own. So a bundle costs no second copy of the trajectories, any range of it can be
//! served, and it has the same bytes each time. No zip crate does this: they write archives from
//! start to end.
//!
//! Format: PKWARE's APPNOTE 6.3.9, with zip64 records where a size or an offset needs them.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::body::Bytes;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use futures::future::Either;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::CHUNK_BYTES;
use crate::hex::{hex, unhex};
use crate::objects::{Key, May, Objects, ask};

/// How the key of an object ends that is another one deflated.
pub(crate) const DEFLATED: &str = ".deflate";
/// What deflating does not make smaller.
const STORED: [&str; 5] = ["dcd", "xtc", "trr", "nc", "png"];

/// What a download is made of, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    /// Of the whole, in hexadecimal digits.
    pub(crate) sha256: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Segment {
    Bytes(String),
    Object { key: Key, size: u64 },
}

impl Segment {
    fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(hex(bytes))
    }

    fn size(&self) -> u64 {
        match self {
            Self::Bytes(digits) => digits.len() as u64 / 2,
            Self::Object { size, .. } => *size,
        }
    }
}

/// An object that is to be in a bundle.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Path in the archive.
    pub(crate) name: String,
    pub(crate) key: Key,
}

/// An object as measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) sha256: String,
    #[serde(skip)]
    crc32: u32,
    #[serde(skip)]
    key: Key,
    /// Key and size of the deflated content.
    #[serde(skip)]
    deflated: Option<(Key, u64)>,
}

/// Reads an object once: sizes and checksums, and its deflated form unless it is a trajectory, which
/// becomes an object if it `may`.
pub(crate) fn measure(objects: &Objects, entry: &Entry, may: May<'_>) -> Result<Measured> {
    let mut checksums = Checksums { sha256: Sha256::new(), crc32: crc32fast::Hasher::new() };
    let is_stored =
        entry.name.rsplit('.').next().is_some_and(|extension| STORED.contains(&extension));
    let (size_bytes, deflated) = if is_stored {
        let size = checksums.pass(objects, &entry.key, &mut io::sink());
        (size.with_context(|| format!("read {}", entry.key))?, None)
    } else {
        let key = entry.key.with_suffix(DEFLATED);
        let mut size = 0;
        let mut written = 0;
        let deflated = objects.write_with(&key, |out| {
            let mut encoder = DeflateEncoder::new(io::BufWriter::new(out), Compression::default());
            size = checksums.pass(objects, &entry.key, &mut encoder)?;
            encoder.try_finish()?;
            written = encoder.total_out();
            encoder.get_mut().flush()?;
            ask(may)
        });
        deflated.with_context(|| format!("deflate {}", entry.key))?;
        (size, Some((key, written)))
    };
    Ok(Measured {
        name: entry.name.clone(),
        size_bytes,
        sha256: hex(&checksums.sha256.finalize()),
        crc32: checksums.crc32.finalize(),
        key: entry.key.clone(),
        deflated,
    })
}

/// The checksums of what passes.
struct Checksums {
    sha256: Sha256,
    crc32: crc32fast::Hasher,
}

impl Checksums {
    /// Takes an object in, and hands it on; its size.
    fn pass(&mut self, objects: &Objects, key: &Key, to: &mut dyn Write) -> io::Result<u64> {
        let mut passing = Passing { checksums: self, to, chunk: Vec::new() };
        let size = objects.read_to(key, &mut passing)?;
        passing.hand_on()?;
        Ok(size)
    }
}

/// Hands on in chunks of one length, however it comes: what is deflated depends on them, and an
/// object that is deflated again, for another bundle, has to stay what it is.
struct Passing<'a> {
    checksums: &'a mut Checksums,
    to: &'a mut dyn Write,
    chunk: Vec<u8>,
}

impl Passing<'_> {
    fn hand_on(&mut self) -> io::Result<()> {
        self.to.write_all(&self.chunk)?;
        self.checksums.sha256.update(&self.chunk);
        self.checksums.crc32.update(&self.chunk);
        self.chunk.clear();
        Ok(())
    }
}

impl Write for Passing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..n]);
        if self.chunk.len() == CHUNK_BYTES {
            self.hand_on()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Layout {
    /// One object as it is.
    pub(crate) fn of_object(key: Key, size: u64, sha256: String) -> Self {
        Self { size, sha256, segments: vec![Segment::Object { key, size }] }
    }

    /// The archive of these objects, dated `time`.
    pub(crate) fn archive(
        objects: &Objects,
        entries: &[Measured],
        time: Timestamp,
    ) -> Result<Self> {
        let mut layout = Self { size: 0, sha256: String::new(), segments: Vec::new() };
        let mut directory = Vec::new();
        for entry in entries {
            let header = Header::new(entry, layout.size, time);
            layout.push(Segment::bytes(&header.local()));
            let (key, size) =
                entry.deflated.clone().unwrap_or((entry.key.clone(), entry.size_bytes));
            layout.push(Segment::Object { key, size });
            directory.extend(header.central());
        }
        let end = end_of_directory(entries.len() as u64, layout.size, directory.len() as u64);
        directory.extend(end);
        layout.push(Segment::bytes(&directory));
        layout.sha256 = layout.digest(objects)?;
        Ok(layout)
    }

    fn push(&mut self, segment: Segment) {
        self.size += segment.size();
        self.segments.push(segment);
    }

    /// Keys and sizes of the objects that it is made of.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Object { key, size } => Some((key, *size)),
            Segment::Bytes(_) => None,
        })
    }

    /// SHA-256 of the whole, as the objects are now.
    pub(crate) fn digest(&self, objects: &Objects) -> Result<String> {
        let mut sha256 = Sha256::new();
        for segment in &self.segments {
            match segment {
                Segment::Bytes(digits) => {
                    sha256.update(unhex(digits).context("the layout of a bundle is damaged")?)
                }
                Segment::Object { key, .. } => {
                    let read = objects.read_to(key, &mut HashWriter(&mut sha256));
                    read.with_context(|| format!("read {key}"))?;
                }
            }
        }
        Ok(hex(&sha256.finalize()))
    }

    /// The bytes from `start` up to but not including `end`; constant memory.
    pub(crate) fn stream(
        self,
        objects: Arc<Objects>,
        start: u64,
        end: u64,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let mut position = 0;
        let mut pieces = Vec::new();
        for segment in self.segments {
            let from = position;
            let to = position + segment.size();
            position = to;
            if from < end && to > start {
                pieces.push((segment, start.saturating_sub(from), to.min(end) - from));
            }
        }
        futures::stream::iter(pieces)
            .map(move |(segment, from, to)| match segment {
                Segment::Bytes(digits) => {
                    let bytes = digits.get(2 * from as usize..2 * to as usize).and_then(unhex);
                    let bytes =
                        bytes.ok_or_else(|| io::Error::other("the layout of a bundle is damaged"));
                    Either::Left(futures::stream::once(async { bytes.map(Bytes::from) }))
                }
                Segment::Object { key, .. } => Either::Right(objects.clone().stream(key, from..to)),
            })
            .flatten()
    }
}

/// Hashes what is written to it.
pub(crate) struct HashWriter<'a>(pub(crate) &'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.0.update(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The records of one entry.
struct Header<'a> {
    entry: &'a Measured,
    offset: u64,
    compressed: u64,
    method: u16,
    time: u16,
    date: u16,
}

/// A 32-bit field that holds this says that a zip64 record has the value.
const IN_ZIP64: u32 = u32::MAX;
const VERSION: u16 = 45;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;

fn field(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(IN_ZIP64)
}

impl<'a> Header<'a> {
    fn new(entry: &'a Measured, offset: u64, time: Timestamp) -> Self {
        let at = time.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        let compressed = entry.deflated.as_ref().map_or(entry.size_bytes, |(_, size)| *size);
        Self {
            entry,
            offset,
            compressed,
            method: if entry.deflated.is_some() { 8 } else { 0 },
            time: ((at.hour() as u16) << 11)
                | ((at.minute() as u16) << 5)
                | (at.second() as u16 / 2),
            date: ((at.year() as u16).saturating_sub(1980) << 9)
                | ((at.month() as u16) << 5)
                | at.day() as u16,
        }
    }

    fn common(&self, zip64: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [VERSION, FLAGS, self.method, self.time, self.date] {
            out.extend(value.to_le_bytes());
        }
        for value in [
            self.entry.crc32,
            self.size_field(self.compressed),
            self.size_field(self.entry.size_bytes),
        ] {
            out.extend(value.to_le_bytes());
        }
        for value in [self.entry.name.len() as u16, zip64 as u16] {
            out.extend(value.to_le_bytes());
        }
        out
    }

    /// Both sizes move to the zip64 record when one has to: the local header requires it.
    fn is_large(&self) -> bool {
        self.entry.size_bytes.max(self.compressed) >= u64::from(IN_ZIP64)
    }

    fn size_field(&self, value: u64) -> u32 {
        if self.is_large() { IN_ZIP64 } else { field(value) }
    }

    fn zip64(&self, with_offset: bool) -> Vec<u8> {
        let mut values = Vec::new();
        if self.is_large() {
            values.extend([self.entry.size_bytes, self.compressed]);
        }
        if with_offset && field(self.offset) == IN_ZIP64 {
            values.push(self.offset);
        }
        let mut out = Vec::new();
        if !values.is_empty() {
            out.extend(1u16.to_le_bytes());
            out.extend((8 * values.len() as u16).to_le_bytes());
            values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        }
        out
    }

    fn local(&self) -> Vec<u8> {
        let zip64 = self.zip64(false);
        [b"PK\x03\x04", self.common(zip64.len()).as_slice(), self.entry.name.as_bytes(), &zip64]
            .concat()
    }

    fn central(&self) -> Vec<u8> {
        let zip64 = self.zip64(true);
        let made_by = (3u16 << 8) | VERSION; // Unix
        let mut out =
            [b"PK\x01\x02", made_by.to_le_bytes().as_slice(), &self.common(zip64.len())].concat();
        // Comment, disk, internal attributes; then a plain file that all may read.
        out.extend([0; 6]);
        out.extend((0o100_644_u32 << 16).to_le_bytes());
        out.extend(field(self.offset).to_le_bytes());
        out.extend(self.entry.name.as_bytes());
        out.extend(zip64);
        out
    }
}

fn end_of_directory(count: u64, offset: u64, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let is_large =
        count >= u64::from(u16::MAX) || field(offset) == IN_ZIP64 || field(size) == IN_ZIP64;
    if is_large {
        out.extend(b"PK\x06\x06");
        out.extend(44u64.to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 8]);
        for value in [count, count, size, offset] {
            out.extend(value.to_le_bytes());
        }
        out.extend(b"PK\x06\x07");
        out.extend([0; 4]);
        out.extend((offset + size).to_le_bytes());
        out.extend(1u32.to_le_bytes());
    }
    let short = if is_large { u16::MAX } else { count as u16 };
    out.extend(b"PK\x05\x06");
    out.extend([0; 4]);
    out.extend(short.to_le_bytes());
    out.extend(short.to_le_bytes());
    out.extend((if is_large { IN_ZIP64 } else { field(size) }).to_le_bytes());
    out.extend((if is_large { IN_ZIP64 } else { field(offset) }).to_le_bytes());
    out.extend([0; 2]);
    out
}
