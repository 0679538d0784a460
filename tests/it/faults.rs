//! What breaks around the program: model servers, disks, readers, the tree that it works in.

mod disk;
mod provider;
mod reader;
mod tree;
