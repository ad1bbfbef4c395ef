//! Tests of connections in memory.

use super::{OpenPipes, Pipe, PipeSettings, pipe};
use crate::Random;
use net::Connection;
use std::io::{ErrorKind, IoSlice};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep, timeout};

fn plain() -> PipeSettings {
    PipeSettings { partial_percent: 0, reset_if_unread: false, ..PipeSettings::default() }
}

async fn send(mut half: WriteHalf<Pipe>, content: Vec<u8>, mut random: Random) {
    let mut rest = &content[..];
    while !rest.is_empty() {
        let (first, second) = rest.split_at(random.below(rest.len() as u64 + 1) as usize);
        let written = match random.below(3) {
            0 => half.write(rest).await.unwrap(),
            1 => half.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).await.unwrap(),
            _ => {
                sleep(random.millis(0, 5)).await;
                half.write(&rest[..1]).await.unwrap()
            }
        };
        assert!(written > 0);
        rest = &rest[written..];
    }
    half.shutdown().await.unwrap();
    // Keeps the end open until the other one has read everything.
    sleep(Duration::from_secs(600)).await;
}

async fn receive(mut half: ReadHalf<Pipe>, mut random: Random) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let mut buffer = vec![0; random.between(1, 300) as usize];
        let read = half.read(&mut buffer).await.unwrap();
        if read == 0 {
            return content;
        }
        content.extend_from_slice(&buffer[..read]);
        if random.percent(20) {
            sleep(random.millis(0, 9)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_interleaving_delivers_exactly_the_bytes_in_order() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let settings = PipeSettings::by_chance(&mut random, &OpenPipes::default());
        let (left, right) = pipe(&settings, Random::new(random.number()));
        let sent: Vec<Vec<u8>> = (0..2)
            .map(|_| (0..random.below(3000)).map(|_| random.number() as u8).collect::<Vec<u8>>())
            .collect();
        let ((left_read, left_write), (right_read, right_write)) =
            (tokio::io::split(left), tokio::io::split(right));
        let mut fork = || Random::new(random.number());
        let tasks = [
            tokio::spawn(send(left_write, sent[0].clone(), fork())),
            tokio::spawn(send(right_write, sent[1].clone(), fork())),
        ];
        let read = timeout(Duration::from_secs(500), async {
            tokio::join!(biased; receive(right_read, fork()), receive(left_read, fork()))
        });
        let (there, back) = read.await.unwrap_or_else(|_| panic!("a waker is lost with seed {seed}"));
        assert_eq!((&there, &back), (&sent[0], &sent[1]), "seed {seed}");
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(settings.open.count(), 0);
    }
}

#[tokio::test]
async fn full_buffer_delays_its_writer() {
    let settings = PipeSettings { capacity_bytes: 3, ..plain() };
    let (mut left, mut right) = pipe(&settings, Random::new(1));
    assert_eq!(left.try_write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap(), 3);
    let full = left.try_write_vectored(&[IoSlice::new(b"d")]);
    assert_eq!(full.unwrap_err().kind(), ErrorKind::WouldBlock);
    let writer = tokio::spawn(async move { left.write_all(b"def").await.map(|()| left) });
    tokio::task::yield_now().await;
    assert!(!writer.is_finished());
    let mut read = [0; 6];
    right.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"abcdef");
    writer.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropped_end_closes_both_directions_after_its_bytes() {
    let (mut left, mut right) = pipe(&plain(), Random::new(1));
    assert!(right.is_quiet());
    left.write_all(b"abc").await.unwrap();
    drop(left);
    assert!(!right.is_quiet());
    let mut read = Vec::new();
    right.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"abc");
    assert!(!right.is_quiet());
    let failed = match right.write(b"d").await {
        Ok(_) => right.write(b"e").await,
        failed => failed,
    };
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn half_closed_connection_still_carries_the_other_direction() {
    let (mut left, mut right) = pipe(&plain(), Random::new(1));
    left.shutdown().await.unwrap();
    assert_eq!(left.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(right.read(&mut [0]).await.unwrap(), 0);
    right.write_all(b"y").await.unwrap();
    let mut read = [0];
    left.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"y");
}

#[tokio::test]
async fn reset_may_lose_unread_bytes_and_always_arrives() {
    let mut lost = 0;
    for seed in 0..40 {
        let (mut left, mut right) = pipe(&plain(), Random::new(seed));
        left.write_all(b"abc").await.unwrap();
        if seed % 2 == 0 {
            left.reset_on_close(true);
            drop(left);
        } else {
            left.reset();
            assert_eq!(left.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        let mut read = Vec::new();
        let error = right.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(right.write(b"d").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        lost += usize::from(read.is_empty());
    }
    assert!(lost > 5 && lost < 35, "chance decides: {lost}");
}

#[tokio::test]
async fn writer_that_waits_learns_that_the_reader_has_left() {
    for abrupt in [false, true] {
        let (mut left, right) = pipe(&PipeSettings { capacity_bytes: 1, ..plain() }, Random::new(1));
        let writer = tokio::spawn(async move { left.write_all(b"abcdef").await });
        tokio::task::yield_now().await;
        right.reset_on_close(abrupt);
        drop(right);
        let kind = writer.await.unwrap().unwrap_err().kind();
        assert_eq!(kind, if abrupt { ErrorKind::ConnectionReset } else { ErrorKind::BrokenPipe });
    }
}

#[tokio::test]
async fn closing_with_unread_bytes_resets_the_connection() {
    let settings = PipeSettings { reset_if_unread: true, ..plain() };
    let (mut left, right) = pipe(&settings, Random::new(1));
    left.write_all(b"unread").await.unwrap();
    drop(right);
    assert_eq!(left.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn bytes_and_the_end_arrive_after_the_latency() {
    let settings = PipeSettings { latency_ms_min: 20, latency_ms_max: 50, ..plain() };
    let (mut left, mut right) = pipe(&settings, Random::new(3));
    let start = Instant::now();
    left.write_all(b"abc").await.unwrap();
    drop(left);
    assert!(right.is_quiet(), "nothing has arrived yet");
    right.read_exact(&mut [0; 3]).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
    assert_eq!(right.read(&mut [0]).await.unwrap(), 0);
    assert!(start.elapsed() <= Duration::from_millis(60), "{:?}", start.elapsed());
}
