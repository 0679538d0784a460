//! What breaks around the program: model servers, disks, the tree that it works in.

mod disk;
mod provider;
mod tree;
