//! Tests of the disk of a world.

use super::WorldDisk;
use crate::{DiskHang, DiskMode, FaultKind, World, WorldSettings};
use platform::{Access, Disk};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

fn path() -> &'static Path {
    Path::new("/cache/file")
}

/// Runs `work` with the disk in a simulated thread.
fn with<T: Send + 'static, F: FnOnce(WorldDisk) -> T + Send + 'static>(
    world: &World,
    work: F,
) -> impl Future<Output = T> + Send + use<T, F> {
    let disk = world.disk().clone();
    world.threads().run("test", move || work(disk))
}

fn settings() -> WorldSettings {
    WorldSettings::default()
}

#[test]
fn operations_take_simulated_time_and_keep_content() {
    let (elapsed, ended) = World::run(1, settings(), |world| async move {
        let start = Instant::now();
        world.disk().set_mode(DiskMode::slow(2000));
        let read = with(&world, |disk| {
            let file = disk.open(path(), Access::Write).unwrap();
            for number in 0..30 {
                assert_eq!(file.write_at(b"abc", number * 3).unwrap(), 3);
            }
            file.sync().unwrap();
            assert_eq!(disk.open_files(), 1);
            drop(file);
            assert_eq!(disk.open_files(), 0);
            disk.read(path()).unwrap().len()
        });
        assert_eq!(read.await, 90);
        assert!(world.faults().of(FaultKind::DiskSlow) > 3);
        start.elapsed()
    });
    assert!(elapsed > Duration::from_secs(1), "{elapsed:?}");
    assert!(ended.violations.is_empty(), "{:?}", ended.violations);
}

#[test]
fn hung_operations_continue_after_thaw() {
    for hang in [DiskHang::Everything, DiskHang::Writing] {
        World::run(1, settings(), |world| async move {
            world.disk().hang(hang);
            let written = tokio::spawn(with(&world, |disk| disk.replace(path(), b"abc")));
            sleep(Duration::from_secs(100)).await;
            assert_eq!(world.disk().hung(), 1);
            if hang == DiskHang::Writing {
                let missing = with(&world, |disk| disk.read(path())).await;
                assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
            }
            world.disk().thaw();
            written.await.unwrap().unwrap();
            assert_eq!(world.disk().hung(), 0);
        });
    }
}

#[test]
fn only_closing_hangs_and_the_end_of_the_world_unwinds_it() {
    let ((), ended) = World::run(1, settings(), |world| async move {
        world.disk().hang(DiskHang::Closing);
        let closed = tokio::spawn(with(&world, |disk| {
            let file = disk.open(path(), Access::Write).unwrap();
            file.write_at(b"abc", 0).unwrap();
        }));
        sleep(Duration::from_secs(100)).await;
        assert!(!closed.is_finished());
        assert_eq!(with(&world, |disk| disk.read(path())).await.unwrap(), b"abc");
        assert_eq!(world.faults().of(FaultKind::DiskHangsClosing), 1);
    });
    assert_eq!(ended.violations, ["the thread `test` has not ended"]);
}

#[test]
fn killed_process_fails_even_where_it_hangs() {
    let ((), ended) = World::run(1, settings(), |world| async move {
        with(&world, |disk| disk.replace(path(), b"old")).await.unwrap();
        world.disk().hang(DiskHang::Everything);
        let hung = tokio::spawn(with(&world, |disk| disk.replace(path(), b"new")));
        sleep(Duration::from_secs(1)).await;
        world.disk().kill();
        assert!(hung.await.unwrap().is_err());
        assert!(with(&world, |disk| disk.read(path())).await.is_err(), "the process has ended");
        world.disk().thaw();
        let disk = world.disk().of_current_process();
        assert_eq!(world.threads().run("next", move || disk.read(path())).await.unwrap(), b"old");
        assert_eq!(world.faults().of(FaultKind::Kill), 1);
    });
    assert!(ended.violations.is_empty(), "{:?}", ended.violations);
}

#[test]
fn process_is_killed_in_the_middle_of_an_operation() {
    World::run(1, settings(), |world| async move {
        world.disk().kill_in(3);
        let count = with(&world, |disk| (0..10).filter(|_| disk.append(path(), b"abc").is_ok()).count());
        let count = tokio::spawn(count);
        world.disk().killed().await;
        assert!(count.await.unwrap() < 3);
        assert_eq!(world.faults().of(FaultKind::KillInOperation), 1);
        world.disk().power_cut();
        let disk = world.disk().of_current_process();
        world.threads().run("next", move || disk.append(path(), b"abc")).await.unwrap();
    });
}

#[test]
fn faults_by_chance_hit_and_are_counted() {
    World::run(1, settings(), |world| async move {
        let mode = DiskMode {
            failing_permille: 200,
            full_permille: 200,
            short_permille: 300,
            misread_permille: 300,
            ..DiskMode::default()
        };
        with(&world, |disk| disk.replace(path(), &[7; 100])).await.unwrap();
        world.disk().set_mode(mode);
        let (failed, full, misread) = with(&world, |disk| {
            let (mut failed, mut full, mut misread) = (0, 0, 0);
            for _ in 0..200 {
                match disk.replace(path(), &[7; 100]) {
                    Err(error) if error.kind() == ErrorKind::StorageFull => full += 1,
                    Err(_) => failed += 1,
                    Ok(()) => {}
                }
                match disk.read(path()) {
                    Ok(content) => misread += u64::from(content != [7; 100]),
                    Err(_) => failed += 1,
                }
            }
            let file = loop {
                if let Ok(file) = disk.open(path(), Access::Read) {
                    break file;
                }
                failed += 1;
            };
            let short =
                (0..100).filter(|_| file.read_at(&mut [0; 50], 0).is_ok_and(|read| read < 50)).count();
            assert!(short > 10, "{short}");
            (failed, full, misread)
        })
        .await;
        assert!(failed > 20 && full > 10 && misread > 10, "{failed} {full} {misread}");
        let faults = world.faults();
        assert!(faults.of(FaultKind::DiskFails) >= failed);
        assert_eq!(faults.of(FaultKind::DiskFull), full);
        assert!(faults.of(FaultKind::DiskMisreads) >= misread);
        assert!(faults.of(FaultKind::DiskShort) > 10);
    });
}

#[test]
fn damaged_file_differs_and_full_disk_refuses() {
    World::run(1, settings(), |world| async move {
        assert!(world.disk().damage().is_none(), "there is no file");
        world.disk().set_room(Some(150));
        with(&world, |disk| disk.replace(path(), &[7; 100])).await.unwrap();
        let full = with(&world, |disk| disk.replace(Path::new("/cache/other"), &[7; 100])).await;
        assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(world.faults().of(FaultKind::DiskFull), 1);
        assert_eq!(world.disk().damage().as_deref(), Some(path()));
        assert_ne!(with(&world, |disk| disk.read(path())).await.unwrap(), [7; 100]);
    });
}

#[test]
fn unnamed_files_are_counted_until_they_are_closed() {
    World::run(1, settings(), |world| async move {
        let file = with(&world, |disk| disk.open_unnamed(Path::new("/spool")).unwrap()).await;
        let file = world
            .threads()
            .run("writer", move || {
                file.write_at(b"abc", 0).unwrap();
                file
            })
            .await;
        assert_eq!((world.disk().open_files(), world.disk().bytes()), (1, 3));
        // A worker may drop the handle.
        drop(file);
        assert_eq!((world.disk().open_files(), world.disk().bytes()), (0, 0));
    });
}

#[test]
fn operation_of_a_worker_is_a_violation() {
    let ((), ended) = World::run(1, settings(), |world| async move {
        assert!(world.disk().boot().is_ok());
        assert!(world.disk().read(path()).is_err());
    });
    assert_eq!(ended.violations, ["a worker touches the disk: Read of /cache/file"]);
}
