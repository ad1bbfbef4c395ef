-- The database of the application. The account of PHP's workers needs no password, because MariaDB
-- asks the system who is at the other end of the socket.
CREATE DATABASE IF NOT EXISTS site;
CREATE USER IF NOT EXISTS 'www-data'@'localhost' IDENTIFIED VIA unix_socket;
GRANT ALL ON site.* TO 'www-data'@'localhost';
