//! The workspace's repository.
