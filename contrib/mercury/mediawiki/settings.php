// Settings of the stack: short URLs, caches in APCu, purges to Petasos.
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgMainCacheType = CACHE_ACCEL;
$wgMessageCacheType = CACHE_ACCEL;
$wgParserCacheType = CACHE_ACCEL;
// Visitors stay logged in when PHP is restarted.
$wgSessionCacheType = CACHE_DB;
// Jobs after each request of PHP. tasks.timer makes one a minute.
$wgJobRunRate = 10;
$wgUseCdn = true;
$wgCdnServers = [ '127.0.0.1:80' ];
$wgCdnServersNoPurge = [ '127.0.0.1' ];
$wgUsePrivateIPs = true;
$wgInternalServer = 'http://www.example.org';
