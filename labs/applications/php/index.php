<?php
// A shop in PHP that gives every visitor a session, by PHP's own session functions.
session_start();
$_SESSION['token'] ??= bin2hex(random_bytes(16));
$goods = ['bread', 'plums', 'letters', 'lamps', 'boats', 'maps', 'clocks', 'kites', 'bells', 'drums'];
$name = in_array($_GET['goods'] ?? '', $goods, true) ? $_GET['goods'] : 'All goods';
?>
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title><?= $name ?></title>
<link rel="stylesheet" href="/style.css">
<link rel="icon" href="/logo.svg">
<script src="/script.js" defer></script>
</head>
<body>
<img src="/logo.svg" alt="Logo" width="40" height="40">
<p>Visitor <b id="visitor"><?= session_id() ?></b></p>
<h1><?= $name ?></h1>
<nav><?php foreach ($goods as $one) { ?><a href="/index.php?goods=<?= $one ?>"><?= $one ?></a> <?php } ?></nav>
<img src="/front.svg" alt="A window" width="80" height="40">
<img src="/door.svg" alt="A door" width="20" height="40">
<form method="post" action="/cart.php"><input type="hidden" name="csrf_token" value="<?= $_SESSION['token'] ?>"></form>
</body>
</html>
