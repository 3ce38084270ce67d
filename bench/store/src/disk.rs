//! The peer below all stores: a write that is on the disk when it returns.

use std::fs::File;
use std::io::Write;
use std::path::Path;

pub(crate) struct Disk(File);

impl Disk {
    pub(crate) fn new(folder: &Path) -> Self {
        Self(File::create(folder.join("bare-writes")).expect("the bench's folder can be written"))
    }

    pub(crate) fn write(&mut self) {
        self.0.write_all(&[0x5A; 4096]).and_then(|()| self.0.sync_data()).expect("the disk takes 4 KiB");
    }
}
