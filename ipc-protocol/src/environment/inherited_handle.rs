//! One resource that a child got from its parent: an inherited descriptor, or a path.
//!
//! Created by the parent's spawn code, opened by the child. Invariant: a descriptor is compared by
//! device and inode before it is used, so a number that refers to another file in this process
//! (because the variable was inherited by accident) is never touched.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use profiler_sys::FileIdentity;

use super::{EnvironmentError, text};
use crate::sys;

/// A file that the parent created and the child uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InheritedHandle {
    /// A descriptor that the child inherits, under the same number as in the parent.
    Descriptor {
        /// The number.
        number: i32,
        /// The file that the number must refer to.
        identity: FileIdentity,
    },
    /// A file to open, on systems where descriptors are not inherited.
    Path(PathBuf),
}

impl InheritedHandle {
    /// In the parent: describes an open file that the child will inherit.
    ///
    /// # Errors
    /// The system's error; `Unsupported` where descriptors are not inherited.
    pub fn of(file: &File) -> io::Result<Self> {
        let (number, identity) = sys::identity(file)?;
        Ok(Self::Descriptor { number, identity })
    }

    /// The number of an inherited descriptor.
    pub(super) fn number(&self) -> Option<i32> {
        match self {
            Self::Descriptor { number, .. } => Some(*number),
            Self::Path(_) => None,
        }
    }

    /// In the child: whether the number refers to the file.
    pub(super) fn check(&self) -> Result<(), EnvironmentError> {
        match self {
            Self::Descriptor { number, identity } => sys::check_inherited(*number, *identity),
            Self::Path(_) => Ok(()),
        }
        .map_err(EnvironmentError::NotHanded)
    }

    /// In the child: returns the file, under a new descriptor that later processes do not inherit.
    /// The inherited number stays open until [`Self::release`].
    ///
    /// # Errors
    /// [`EnvironmentError::NotHanded`] when this process has no such file.
    pub fn open(&self) -> Result<File, EnvironmentError> {
        match self {
            Self::Descriptor { number, identity } => sys::duplicate_inherited(*number, *identity),
            Self::Path(path) => File::options().read(true).write(true).open(path),
        }
        .map_err(EnvironmentError::NotHanded)
    }

    /// In the child: closes the inherited number, so that processes started later do not get it.
    /// Call it once, after [`Self::open`] and after the content has been recognised.
    ///
    /// # Errors
    /// [`EnvironmentError::NotHanded`] when the number now refers to another file; then nothing is
    /// closed.
    pub fn release(self) -> Result<(), EnvironmentError> {
        match self {
            Self::Descriptor { number, identity } => {
                sys::close_inherited(number, identity).map_err(EnvironmentError::NotHanded)
            }
            Self::Path(_) => Ok(()),
        }
    }

    /// Formats it for the variable.
    pub(super) fn to_value(&self) -> String {
        match self {
            Self::Descriptor {
                number,
                identity: FileIdentity { device, inode },
            } => {
                format!("fd:{number}:{device}:{inode}")
            }
            Self::Path(path) => {
                format!("path:{}", text::escape(path.as_os_str().as_encoded_bytes()))
            }
        }
    }

    /// Parses the output of [`Self::to_value`].
    pub(super) fn parse(value: &str) -> Result<Self, EnvironmentError> {
        match value.split_once(':') {
            Some(("fd", rest)) => {
                parse_descriptor(rest).ok_or(EnvironmentError::Malformed("descriptor"))
            }
            Some(("path", rest)) => parse_path(rest).ok_or(EnvironmentError::Malformed("path")),
            _ => Err(EnvironmentError::Malformed("neither descriptor nor path")),
        }
    }
}

/// Refuses numbers below 3: the standard streams are never handed over.
fn parse_descriptor(text: &str) -> Option<InheritedHandle> {
    let (number, file) = text.split_once(':')?;
    let (device, inode) = file.split_once(':')?;
    let number = number.parse().ok().filter(|number| *number > 2)?;
    let identity = FileIdentity {
        device: device.parse().ok()?,
        inode: inode.parse().ok()?,
    };
    Some(InheritedHandle::Descriptor { number, identity })
}

fn parse_path(text: &str) -> Option<InheritedHandle> {
    let bytes = text::unescape(text).filter(|bytes| !bytes.is_empty() && !bytes.contains(&0))?;
    sys::path_from_bytes(bytes).map(InheritedHandle::Path)
}
