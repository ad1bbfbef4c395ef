<?php
/**
 * An object server cannot be reached, or has closed the connection. The message names the server
 * and the cause.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class Gone extends \RuntimeException
{
}
