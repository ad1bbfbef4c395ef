//! Background tasks and threads.

pub(crate) mod background;
pub(crate) mod backlog;
pub(crate) mod certificate_check;
pub(crate) mod certificates;
pub(crate) mod detection;
pub(crate) mod detection_call;
pub(crate) mod detections_file;
pub(crate) mod directories;
pub(crate) mod disk_threads;
pub(crate) mod footprint;
pub(crate) mod issuance;
pub(crate) mod leaving;
pub(crate) mod persistence;
pub(crate) mod persisting;
pub(crate) mod refill;
pub(crate) mod reload;
pub(crate) mod service_manager;
pub(crate) mod set_aside;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod sweeper;
pub(crate) mod take_over;
pub(crate) mod tree;
pub(crate) mod tree_writer;
pub(crate) mod verifier;
