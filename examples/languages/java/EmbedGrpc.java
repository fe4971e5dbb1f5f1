// Embeds a text over gRPC, with grpc-java and stubs that protoc makes from headlight.proto:
//
//   java -cp CLASSES EmbedGrpc 127.0.0.1:50051 "join two paths" 10
//
// It prints the vector as a list of numbers. The last argument is the deadline in seconds.
// Debian's packages have all of it: libgrpc-java, protobuf-compiler-grpc-java-plugin.

import headlight.v1.Headlight.EncodeRequest;
import headlight.v1.Headlight.Input;
import headlight.v1.Headlight.Outputs;
import headlight.v1.Headlight.PooledOutput;
import headlight.v1.HeadlightServiceGrpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

public class EmbedGrpc {
  static float[] embed(ManagedChannel channel, String text, double seconds) {
    EncodeRequest request = EncodeRequest.newBuilder()
        .addInputs(Input.newBuilder().setText(text))
        .setOutputs(Outputs.newBuilder().setPooled(PooledOutput.getDefaultInstance()))
        .build();
    var answer = HeadlightServiceGrpc.newBlockingStub(channel)
        .withDeadlineAfter((long) (1e6 * seconds), TimeUnit.MICROSECONDS)
        .encode(request);
    var bytes = answer.getPooled(0).getData().asReadOnlyByteBuffer();
    float[] vector = new float[bytes.remaining() / 4];
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(vector);
    return vector;
  }

  public static void main(String[] words) {
    if (words.length != 3) {
      System.err.println("usage: EmbedGrpc HOST:PORT TEXT SECONDS");
      System.exit(2);
    }
    ManagedChannel channel = ManagedChannelBuilder.forTarget(words[0]).usePlaintext().build();
    int status = 0;
    try {
      System.out.println(Arrays.toString(embed(channel, words[1], Double.parseDouble(words[2]))));
    } catch (StatusRuntimeException error) {
      System.err.println(error.getStatus().getCode() + ": " + error.getStatus().getDescription());
      status = 1;
    }
    channel.shutdownNow();
    System.exit(status);
  }
}
