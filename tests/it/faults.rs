//! What breaks around the program: model servers, disks, readers, the tree that it works in.

mod crash;
mod disk;
mod provider;
mod reader;
mod short;
mod tree;
mod vendor;
